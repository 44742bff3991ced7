"""Reads the reference topics, prices and controls, which every worker reads from their beginning."""
