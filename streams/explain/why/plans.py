"""Which planned rates are for a job, and whether they are in force at an instant: a recurring one is at some hours only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from streams.explain.acts import covers, matches, recurs


class JobPlan(NamedTuple):
    """A planned rate for a job; `recurs`: when, in words, '' where it does not; `covers`: whether it is in force at the instant."""

    name: str
    by: str
    usd_per_hour: object
    recurs: str
    covers: bool
    until_ms: int | None


def plans_of(
    controls: Iterable[Mapping[str, Any]], facts: Mapping[str, str], at_ms: int
) -> Iterator[JobPlan]:
    """Yield the plans that match a job and are in force at an instant, or would be at another hour.

    Args:
        controls: Rows of `IN_FORCE`.
        facts: What controls can match of the job.
        at_ms: The instant.
    """
    for control in controls:
        if control["kind"] != "planned" or not matches(control, facts):
            continue
        now = covers(control, at_ms)
        if now or (control["recurring"] and covers({**control, "recurring": ""}, at_ms)):
            by = str(control["by"] or control["source"])
            yield JobPlan(
                str(control["name"]), by, control["usd_per_hour"], recurs(control), now, control["until_ms"]
            )
