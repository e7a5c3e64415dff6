"""Lists for people: filter, sort and count what the memory holds."""
