"""Endpoints as they are met: each with a quirk of its own."""
