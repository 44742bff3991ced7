"""Work of a job that is expected to be saved and is not. Must import nothing of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tests.oracle.model import HOUR_MS, STARTS
from tests.oracle.timeline import ENDLESS_MS, Attempt

if TYPE_CHECKING:
    from tests.oracle.job_rules import Rated


class Unsaved(NamedTuple):
    """An attempt whose work is expected to be saved: since when it is not, when it runs, and what it pays."""

    since_ms: int
    running: Sequence[tuple[int, int]]
    pieces: Sequence[Rated]
    scale: int
    usual_ms: int  # that the job runs between two checkpoints; 0: not known

    def is_late(self, at_ms: int, limits: Mapping[str, Fraction]) -> bool:
        """Whether it runs, has made none for longer than that, and has cost much since then."""
        if not any(start_ms <= at_ms < end_ms for start_ms, end_ms in self.running):
            return False
        cost = sum(
            piece.rate * max(0, min(at_ms, piece.end_ms) - max(self.since_ms, piece.start_ms))
            for piece in self.pieces
        )
        ran_ms = sum(max(0, min(at_ms, end_ms) - start_ms) for start_ms, end_ms in self.running)
        longest_ms = max(limits["hours"] * HOUR_MS, Fraction(round(limits["usual_times"] * self.usual_ms)))
        return ran_ms >= longest_ms and cost >= limits["least_usd"] * 10**9 * self.scale


def unsaved(
    attempts: Sequence[Attempt], pieces: Mapping[int, Sequence[Rated]], scale: int
) -> Sequence[Unsaved]:
    """Of all attempts of a job that saves its work, and of those on spot."""
    checkpoints = [[e["time_ms"] for e in a.effective if e["type"] == "checkpointed"] for a in attempts]
    running = [
        [(s.start_ms, s.end_ms) for s in attempt.segments(ENDLESS_MS) if s.phase == "running"]
        for attempt in attempts
    ]
    # "the middle one of the last three such times, of two the lesser"; "the first of an attempt counts from its start on"
    ran_ms = [
        sum(max(0, min(b_ms, to_ms) - max(a_ms, from_ms)) for a_ms, b_ms in ran)
        for attempt, made, ran in zip(attempts, checkpoints, running, strict=True)
        if made and not attempt.metered
        for from_ms, to_ms in pairwise(sorted([*made, *_start(attempt)]))
    ][-3:]
    usual_ms = sorted(ran_ms)[(len(ran_ms) - 1) // 2] if ran_ms else 0
    found = []
    for attempt, made, ran in zip(attempts, checkpoints, running, strict=True):
        on_spot = attempt.final.fields.get("purchase") == "spot"
        since_ms = made[-1] if made else attempt.first_start_ms()
        if since_ms is None or attempt.metered or not (on_spot or any(checkpoints)):
            continue
        after = [(max(start_ms, since_ms), end_ms) for start_ms, end_ms in ran if end_ms > since_ms]
        found.append(Unsaved(since_ms, after, pieces.get(attempt.number, ()), scale, usual_ms))
    return found


def _start(attempt: Attempt) -> list[int]:
    return [event["time_ms"] for event in attempt.effective if event["type"] in STARTS][:1]
