"""Questions about log files, answered by exact queries."""
