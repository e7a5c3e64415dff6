"""The Model Context Protocol, for orchestrators that speak it: over stdio, and under `/mcp` of a server."""
