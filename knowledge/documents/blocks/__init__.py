"""Documents cut into blocks: paragraphs, items, definitions, steps, rows, code, settings, each with its place."""
