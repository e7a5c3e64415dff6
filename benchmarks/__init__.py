"""What `make bench` and `make evaluate` run."""
