"""Providers' bills in the FOCUS format: read, checked line by line, stored as a whole."""
