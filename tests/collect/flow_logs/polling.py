"""Polls a collector of files once."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from streams.accounts.account import Account
from streams.collect.collector import Collector

NOW_MS = 4_000_000_000_000  # all files of a test have settled by then


class Polled(NamedTuple):
    """What one poll found."""

    events: list[dict[str, Any]]
    account: Account
    unattributed_bytes: Counter[str]
    position: Any


def polled(collector: Collector, position: Any = None, now_ms: int = NOW_MS) -> Polled:
    """Return what a poll finds, of all its batches."""
    found = Polled([], Account(), Counter(), position)
    for batch in collector.poll(position, now_ms):
        found.events.extend(dict(event.value) for event in batch.events)
        found.account.add(batch.account)
        found.unattributed_bytes.update(batch.unattributed_bytes)
        found = found._replace(position=batch.position)
    return found
