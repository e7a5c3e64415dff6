"""One module for each page of what was learned and used: it reads what the page shows, and does what its forms ask."""
