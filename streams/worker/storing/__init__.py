"""Checkpoints into the store: when they are due, in which order they are stored, and the dead letters with them."""
