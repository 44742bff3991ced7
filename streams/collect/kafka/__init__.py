"""Relays records of other Kafka topics: maps them to events by a file of the operator's."""
