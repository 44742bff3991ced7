"""Explains the cost of a job: every interval with its quantity, price and rule, from stored snapshots."""
