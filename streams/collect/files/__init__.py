"""Collectors of files: which files there are, what was read of each, and their content in parts."""
