"""The pages of an operator: health, keys, the audit log, and the API."""
