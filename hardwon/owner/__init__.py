"""The owner process of a data directory: found by its socket, or started, detached."""
