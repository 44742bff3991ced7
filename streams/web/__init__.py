"""The HTTP side of a worker: API, live page, metrics and health, all read from the store.

It must not meter, write, or touch shards: the worker's status is handed to it as values.
"""
