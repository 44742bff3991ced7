"""Sliding windows over the cost of each job: curves, window sums at ticks, and the rows of `burn_rates`."""
