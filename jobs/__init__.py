"""What runs by the clock: the checkpoint sweeper and the daily prune."""
