"""Rules for reports of test runs: files, identities, containers, messages, and what proves that a test was mended."""
