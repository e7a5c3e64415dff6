"""Embed staged entries: leases, batches, summaries."""
