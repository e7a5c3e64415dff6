"""Statements of maintenance: archives, audit log, API keys and quotas, provenance, verification."""
