"""Collectors: read outside systems, make events of them, and publish these."""
