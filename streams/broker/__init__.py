"""A Kafka broker of one node in this process, on a log in files: where there is no Kafka, the same worker runs on it.

It speaks what our own clients speak: produce, fetch, one consumer group of one member.
"""
