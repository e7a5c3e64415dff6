"""Open the stores, pick the adapters, build the services."""
