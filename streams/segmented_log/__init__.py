"""A log of record batches in files: appended durably, read by topic, partition and offset, dropped by whole segments."""
