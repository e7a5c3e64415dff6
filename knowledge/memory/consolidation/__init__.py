"""Decide whether an entry joins a pattern or founds one."""
