"""Explains the cost of a job: every interval with its quantity, price and rule, from stored snapshots.

It must not compute a cost of its own, nor know who requests it.
"""
