"""Scoring of candidates: fusion, features, calibrated relevance and confidence."""
