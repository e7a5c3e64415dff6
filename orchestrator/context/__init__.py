"""The context of a task: selection, rendering, token budget, deadline."""
