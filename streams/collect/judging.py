"""Leaves out collected events that the meter would refuse: who set a collector up, or named a job, never sees a dead letter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from schemas.decode import decode
from schemas.durations import NEVER_MS
from schemas.escaping import visible
from schemas.invalid import Invalid
from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent, EventBatch
from streams.topics import Topic

#: What tells one entry from another: the first of these that an event has.
_NAMES: Final = ("job_id", "node", "name", "id")
_SHOWN_CHARS: Final = 80


class Refusal(NamedTuple):
    """Why the meter would refuse an event: a reason, and what the event has."""

    reason: str
    said: str


def without_refused(batch: EventBatch, refused: dict[str, Refusal]) -> EventBatch:
    """The batch without events that the meter would refuse, whenever it reads them.

    The first refusal of each job, node or GPU is added to `refused` under its name: one has many events, and is one entry.
    """
    kept: list[CollectedEvent] = []
    for event in batch.events:
        # The meter judges by its own clock what is of the future.
        verdict = decode(event.topic, orjson.dumps(event.value), (), NEVER_MS)
        if isinstance(verdict, Invalid):
            for entry in _entries(event):
                refused.setdefault(entry, Refusal(verdict.reason, f"{entry}: {verdict.detail}"))
        else:
            kept.append(event)
    return batch if len(kept) == len(batch.events) else batch._replace(events=kept)


def add_refused(account: Account, refused: Mapping[str, Refusal]) -> Account:
    """The account with what the meter would refuse as not understood."""
    for each in refused.values():
        account.refuse(*each)
    return account


def _entries(event: CollectedEvent) -> Iterator[str]:
    """Yield what the event is about, as a person calls it."""
    if event.topic == Topic.GPU:
        gpus = event.value.get("gpus") or [event.value.get("gpu", "")]
        yield from (f"GPU {_shown(gpu)} of node {_shown(event.value['node'])}" for gpu in gpus)
        return
    name = next((name for name in _NAMES if event.value.get(name)), "")
    yield f"{name.removesuffix('_id') or event.topic} {_shown(event.value.get(name, ''))}".rstrip()


def _shown(name: object) -> str:
    return visible(str(name)[:_SHOWN_CHARS])
