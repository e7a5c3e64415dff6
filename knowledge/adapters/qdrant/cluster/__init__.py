"""A Qdrant server or cluster: its nodes, the collections on it and their layout, and what its errors mean."""
