"""Services of a hardwon server over HTTP, with the names they have in process: the table of operations."""
