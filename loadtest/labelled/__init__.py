"""Labelled traces: a fleet that behaves, incidents of known kinds in it, and how well the rules tell them apart."""
