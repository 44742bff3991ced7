"""Gives samples that name a node and no job to the job that held the GPU then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from streams.collect.allocations import Allocations, JobHolder
from streams.collect.collector import CollectedEvent
from streams.topics import Topic


def owned(events: Iterable[CollectedEvent], allocations: Allocations) -> Iterator[CollectedEvent]:
    """Yield events, samples without a job as one for each holder of its GPUs and one for those of nobody known."""
    for event in events:
        if event.topic is not Topic.GPU or event.value.get("job_id"):
            yield event
        else:
            yield from _by_holder(dict(event.value), allocations)


def _by_holder(value: dict[str, Any], allocations: Allocations) -> Iterator[CollectedEvent]:
    gpus: list[str] = value["gpus"] if value.get("gpus") else [value["gpu"]]
    until_ms = value["time_ms"]
    of_holder: dict[JobHolder | None, list[int]] = {}
    for place, gpu in enumerate(gpus):
        holder = allocations.of_gpu(value["node"], [gpu], until_ms - value["interval_ms"], until_ms)
        of_holder.setdefault(holder, []).append(place)
    for holder, places in of_holder.items():
        part = value if len(places) == len(gpus) else {k: _picked(v, places) for k, v in value.items()}
        job = {} if holder is None else {"job_id": holder.job_id, "attempt": holder.attempt}
        yield CollectedEvent(Topic.GPU, {**part, **job})


def _picked(found: Any, places: list[int]) -> Any:
    """The entries of these GPUs; the meter has checked that all lists are of one length."""
    return [found[place] for place in places] if isinstance(found, list) else found
