"""Who may do what: keys, the principals they make, and the guard in front of every service."""
