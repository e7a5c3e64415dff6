"""What runs by the clock: the checkpoint sweeper, the daily prune, and what documents need."""
