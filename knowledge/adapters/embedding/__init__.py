"""Embedding models: bundled weights and OpenAI-compatible endpoints."""
