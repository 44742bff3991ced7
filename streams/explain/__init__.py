"""Why a job cost what it did: every interval with its quantity, price and rule, from stored snapshots.

It must not compute a cost of its own, nor know who asks.
"""
