"""Scheduled jobs: the checkpoint sweeper, the daily prune, and the upkeep of documents."""
