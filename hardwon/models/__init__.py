"""Values that callers send and receive: frozen dataclasses, ids and enumerations."""
