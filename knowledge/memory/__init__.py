"""The learning memory: capture, checkpoints, queries, pruning."""
