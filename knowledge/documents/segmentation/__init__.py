"""Split a passage into the pieces that can answer by themselves."""
