"""Ways into hardwon for other libraries, each a module that only those who have the library import."""
