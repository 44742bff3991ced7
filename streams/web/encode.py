"""JSON of the API: that of answers to SQL, so that a value looks the same wherever it is read.

It must not encode anything in a way of its own.
"""

from sinks.query.values import EXACT_MAX, ms, plain, to_json

__all__ = ["EXACT_MAX", "ms", "plain", "to_json"]
