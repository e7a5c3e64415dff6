"""Authentication and authorisation: API keys, principals, and the guard in front of every service."""
