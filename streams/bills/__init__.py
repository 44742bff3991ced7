"""Providers' bills in the FOCUS format: read, checked line by line, stored as a whole.

It must not meter anything: the ledger stays as it is, a bill stands beside it.
"""
