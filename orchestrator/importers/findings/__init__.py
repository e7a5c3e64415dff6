"""Findings of static analysis in SARIF, Checkstyle and GitLab's code quality: their identity, remedies and lifecycle.

Every format is read into `Finding`; what it is the same as, and what its absence proves, is decided here once.
"""
