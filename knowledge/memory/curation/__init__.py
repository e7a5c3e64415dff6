"""Decisions of people: review, merge and split, revocation, the audit log."""
