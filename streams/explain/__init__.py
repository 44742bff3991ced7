"""Why a job costs what it costs: the ledger's rows as spans of time with their rules.

It must not compute a cost of its own, nor know who asks.
"""
