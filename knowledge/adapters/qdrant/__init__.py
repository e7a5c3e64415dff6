"""The vector index: the embedded engine and the Qdrant server."""
