"""Pure functions on text: tokens, BM25, stack traces, names, redaction."""
