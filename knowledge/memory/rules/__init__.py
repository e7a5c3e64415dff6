"""Pure rules of the memory: validation, conditions, similarity, ranking."""
