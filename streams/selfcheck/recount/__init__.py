"""Recounts a part of the log in memory, compares it with the stored rows, and repairs them."""
