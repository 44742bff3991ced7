"""When a job has ended, for how long after an attempt broke off nobody can say so, and when it should be heard of.

Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.intake import JobLog, attempt_of
from tests.oracle.model import MINUTE_MS, Json
from tests.oracle.timeline import ENDLESS_MS, Attempt, Interval, union

NEXT_ATTEMPT_MS = 10 * MINUTE_MS


def has_ended(attempts: Sequence[Attempt]) -> bool:
    """Whether all attempts have ended; of one that only moved bytes nobody can say, and it counts for nothing."""
    known = _known(attempts)
    return bool(known) and all(a.own_end is not None or a.superseded_ms is not None for a in known)


def undecided_until_ms(attempts: Sequence[Attempt]) -> int:
    """By "until 10 min have passed without a next attempt"; 0 where none broke off, or the last one says the end."""
    known = _known(attempts)
    ends = [a.own_end for a in known if a.own_end is not None]
    broke_off_ms = [end["time_ms"] for end in ends if end["type"] in ("preempted", "failed")]
    last = known[-1].own_end if known else None
    if not broke_off_ms or (last is not None and last["type"] in ("completed", "cancelled")):
        return 0
    latest_ms: int = max(broke_off_ms)
    return latest_ms + NEXT_ATTEMPT_MS


def running(attempts: Sequence[Attempt], *, on_gpus: bool = False) -> list[Interval]:
    """When any attempt runs (`on_gpus`: and holds some); what is only sampled has no phases."""
    return union(
        (s.start_ms, s.end_ms)
        for a in attempts
        for s in a.segments(ENDLESS_MS)
        if s.phase == "running" and (s.values.gpu_milli > 0 or not on_gpus)
    )


def heard_ms(log: JobLog) -> int | None:
    """The newest heartbeat or sample, of whatever attempt."""
    heartbeats = (e["time_ms"] for e in log.events if e["type"] == "heartbeat")
    return max([*heartbeats, *(s.time_ms for s in log.samples)], default=None)


class Beats(NamedTuple):
    """When the newest attempt with heartbeats sent its newest one, and the last three times between two of them."""

    newest_ms: int
    between_ms: Sequence[int]


def beats(events: Iterable[Json]) -> Beats | None:
    """By the heartbeats in the order in which they were read; time with a suspension in it does not count."""
    of_attempt, newest_ms, counts, between = 0, 0, False, list[int]()
    found = False
    for event in events:
        number, at_ms = attempt_of(event), event["time_ms"]
        if event["type"] in ("suspended", "resumed") and number == of_attempt:
            counts = False
        if event["type"] != "heartbeat":
            continue
        if not found or number > of_attempt:
            found, of_attempt, newest_ms, counts = True, number, at_ms, True
        elif number == of_attempt and at_ms > newest_ms:
            between += [at_ms - newest_ms] if counts else []
            newest_ms, counts = at_ms, True
    return Beats(newest_ms, between[-3:]) if found else None


def is_silent(
    times_of_running: Sequence[Interval],
    newest_ms: int | None,
    at_ms: int,
    beat: Beats | None,
    limits: Mapping[str, Fraction],
) -> bool:
    """By the contract, "none for 10 min, or 3 times as long as it usually is between its heartbeats"; of the last time of running."""
    if newest_ms is None or not times_of_running:
        return False
    start_ms, end_ms = times_of_running[-1]
    after_ms = limits["minutes"] * MINUTE_MS
    if beat is not None and beat.newest_ms == newest_ms:  # else a sample was heard later
        usual_ms = sorted(beat.between_ms)[len(beat.between_ms) // 2] if beat.between_ms else 0
        waits_ms = (
            limits["usual_times"] * usual_ms if beat.between_ms else limits["first_minutes"] * MINUTE_MS
        )
        after_ms = max(after_ms, waits_ms)
    return max(start_ms, newest_ms) + after_ms <= at_ms < end_ms


def _known(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [a for a in attempts if a.events or a.has_samples]
