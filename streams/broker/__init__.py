"""A Kafka broker of one node in this process, on a log in files: the very worker runs on it where no Kafka is.

It speaks what our own clients speak: produce, fetch, one consumer group of one member. It must not meter.
"""
