"""Settings from the environment, with the prefix HARDWON_."""
