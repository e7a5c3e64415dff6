"""The HTTP API and the pages in front of it: a route parses, calls one method of a service, answers."""
