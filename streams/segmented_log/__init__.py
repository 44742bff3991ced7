"""A log of record batches in files: appended durably, read by topic, partition and offset, dropped by whole segments.

It must not know Kafka's protocol, settings or a clock: times are handed in.
"""
