"""Learning from a command that is watched: it fails, the work tree changes, it passes."""
