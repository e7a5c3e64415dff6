"""Store what happened: entries, resolutions, outcomes, events of tasks."""
