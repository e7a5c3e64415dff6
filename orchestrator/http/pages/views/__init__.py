"""One module for each page: it reads what the page shows, and does what its forms ask."""
