"""The ports, for real: the only place, with wiring, that names a driver."""
