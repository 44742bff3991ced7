"""Estimates: what a job would cost before it runs, and what one that ran would have cost elsewhere."""
