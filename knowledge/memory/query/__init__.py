"""Find patterns for a task, a failure or a gate."""
