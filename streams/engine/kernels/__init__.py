"""Compiled kernels (Numba) over plain arrays: parsing, coverage, pricing, windows, alert rules."""
