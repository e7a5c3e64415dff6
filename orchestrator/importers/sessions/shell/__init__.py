"""Lines of shell: the commands in them, and what their programs do."""
