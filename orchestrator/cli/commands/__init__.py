"""Commands, a module for each group."""
