"""Judges burn rates: which alerts fire, since when and with which figures.

It must not read a clock, send anything or know a store: instants come in, alerts go out as values.
"""
