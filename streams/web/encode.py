"""Encodes JSON of the API like results of SQL, so that a value looks the same everywhere."""

from sinks.query.values import EXACT_MAX, ms, plain, to_json

__all__ = ["EXACT_MAX", "ms", "plain", "to_json"]
