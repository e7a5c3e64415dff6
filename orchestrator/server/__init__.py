"""`hardwon serve`: the API, MCP and the scheduler in one process."""
