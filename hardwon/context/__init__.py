"""Contexts within a deadline, whatever happens: the deadline, the circuit breaker and the degradation."""
