"""The HTTP side of a worker: API, live page, metrics and health, all read from the store.

It must not meter, write, nor touch the shards: what it tells of the worker is handed to it as values.
"""
