"""Proves while the meter runs that its books balance and that the tables say what the meter knows."""
