"""The client side: services of a hardwon server, public values and errors."""
