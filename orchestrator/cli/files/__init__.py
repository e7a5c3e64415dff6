"""Files and folders as commands take them."""
