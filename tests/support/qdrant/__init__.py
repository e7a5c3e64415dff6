"""The parts of the stand-in Qdrant server: shards, graphs, refusals, and a cluster of nodes with faults."""
