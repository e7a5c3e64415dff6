"""Routes, a module for each kind."""
