"""The HTTP side of a worker: API, live page, metrics and health, all read from the store.

The worker's status is handed to it as values.
"""
