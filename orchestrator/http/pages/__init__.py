"""The web pages for people, rendered on the server: they call the services that the API calls, as the same caller."""
