"""Rules of a job whose condition its attempts decide: retry loops, and another purchase at a higher price.

Must import nothing of the project; money is in the SCALE-ths of `burn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.model import HOUR_MS
from tests.oracle.timeline import ENDLESS_MS, Attempt, Interval

FAILURES = 3
PREEMPTIONS = 6
LOST_NANO = 25 * 10**9
RISE = Fraction(1)


class Broken(NamedTuple):
    """An attempt that broke off, and what it lost."""

    ended_ms: int
    failed: bool  # else it was preempted
    lost: Fraction  # nano-dollars


class Rated(NamedTuple):
    """Paid time of one attempt at one cost per ms."""

    start_ms: int
    end_ms: int
    rate: int


@dataclass(frozen=True)
class AttemptRules:
    """What the attempts say, asked tick by tick."""

    broken: Sequence[Broken]
    done_ms: int
    risen: Sequence[Interval]
    deadline_ms: int | None

    def retries(self, at_ms: int) -> bool:
        """Three failures within an hour, or two that lost much, or six preemptions; for an hour after the last."""
        if at_ms >= self.done_ms:
            return False
        for last in self.broken:
            if not last.ended_ms <= at_ms < last.ended_ms + HOUR_MS:
                continue
            hour = [b for b in self.broken if 0 <= last.ended_ms - b.ended_ms < HOUR_MS]
            alike = [b for b in hour if b.failed == last.failed]
            if len(alike) >= (FAILURES if last.failed else PREEMPTIONS):
                return True
            if last.failed and len(alike) >= 2 and sum(b.lost for b in alike) >= LOST_NANO:
                return True
        return False

    def paid_more(self, at_ms: int) -> bool:
        """Whether an attempt pays that has another purchase than the one before, and a higher rate per GPU."""
        return any(a_ms <= at_ms < b_ms for a_ms, b_ms in self.risen)


def attempt_rules(
    attempts: Sequence[Attempt], pieces: Mapping[int, Sequence[Rated]], scale: int, deadline_ms: int | None
) -> AttemptRules:
    """`pieces`: the paid time of each attempt."""
    known = [a for a in attempts if a.events or a.has_samples]
    end = known[-1].own_end if known else None
    done = end is not None and end["type"] in ("completed", "cancelled")
    return AttemptRules(
        sorted(_broken(attempts, pieces, scale)),
        end["time_ms"] if done and end is not None else ENDLESS_MS,
        _risen(attempts, pieces),
        deadline_ms,
    )


def _broken(attempts: Sequence[Attempt], pieces: Mapping[int, Sequence[Rated]], scale: int) -> list[Broken]:
    found = []
    for place, attempt in enumerate(attempts):
        state = attempt.state()
        if state in ("failed", "superseded", "preempted"):
            end = attempt.own_end
            ended_ms = attempt.superseded_ms if end is None else end["time_ms"]
            assert ended_ms is not None
            lost = sum(
                piece.rate * max(0, min(b_ms, piece.end_ms) - max(a_ms, piece.start_ms))
                for piece in pieces.get(attempt.number, ())
                for a_ms, b_ms in attempt.lost(has_lower=place > 0)
            )
            found.append(Broken(ended_ms, state != "preempted", Fraction(lost, scale)))
    return found


def _risen(attempts: Sequence[Attempt], pieces: Mapping[int, Sequence[Rated]]) -> list[Interval]:
    """When attempts pay another purchase than the last one before them that had another one."""
    found: list[Interval] = []
    history: list[tuple[str, Fraction]] = []  # (purchase, cost per ms of a GPU) at the end of each attempt
    for attempt in attempts:
        paid = attempt.segments(ENDLESS_MS)
        purchase = paid[0].values.fields.get("purchase") if paid else None
        if not purchase:
            continue

        def per_gpu(place: int, attempt: Attempt = attempt) -> Fraction:
            segment = attempt.segments(ENDLESS_MS)[place]
            rate = sum(
                p.rate for p in pieces.get(attempt.number, ()) if p.start_ms <= segment.start_ms < p.end_ms
            )
            held = segment.values.gpu_milli
            return Fraction(1000 * rate, held) if held else Fraction(rate)

        others = [one for one in history if one[0] != purchase]
        if others and others[-1][1] > 0 and per_gpu(0) > RISE * others[-1][1]:
            found += [(segment.start_ms, segment.end_ms) for segment in paid]
        history.append((paid[-1].values.fields.get("purchase") or purchase, per_gpu(-1)))
    return found
