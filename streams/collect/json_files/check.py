"""`trainfare collect json-files --check FILE`: the events that a map makes of a sample, or what is wrong."""

from __future__ import annotations

from streams.collect.kafka.check import check_sample

__all__ = ["check_sample"]
