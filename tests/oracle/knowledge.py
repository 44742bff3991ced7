"""What a log had told of each job by an instant: the lines read by then, taken in as the ledger's oracle does.

A line is known from its log time on, whatever instant it speaks of.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.oracle.burn import Burn, burn
from tests.oracle.controls import standing
from tests.oracle.intake import Intake, JobLog, body
from tests.oracle.model import Json, Line
from tests.oracle.prices import PriceBook

JOB_TOPICS = ("jobs", "gpu", "network", "storage")


class Told(NamedTuple):
    """A line and the instant of the log at which it was read."""

    log_ms: int
    line: Line


def in_log_time(lines: Iterable[Line]) -> list[Told]:
    """By the contract: "in `replay` it is the newest event time so far"; no clock of these logs runs ahead."""
    told, newest_ms = [], 0
    for line in lines:
        if line.valid:
            newest_ms = max(newest_ms, body(line)["time_ms"])
        told.append(Told(newest_ms, line))
    return told


class Knowledge:
    """What the log had told of each job by an instant."""

    def __init__(self, told: Iterable[Told], late_horizon_s: int = 600) -> None:
        self._late_horizon_s = late_horizon_s
        self._jobs: dict[str, list[Told]] = {}
        self._prices: list[Told] = []
        self._controls: list[Told] = []
        self._books: dict[int, PriceBook] = {}
        self._last: dict[str, tuple[tuple[int, int, int], Burn | None]] = {}
        self._taken: dict[str, tuple[Intake, int]] = {}  # by job, and how many of its lines
        for one in told:
            if not one.line.valid:
                continue
            if one.line.topic == "prices":
                self._prices.append(one)
            elif one.line.topic == "controls":
                self._controls.append(one)
            elif one.line.topic in JOB_TOPICS and body(one.line).get("job_id"):
                self._jobs.setdefault(body(one.line)["job_id"], []).append(one)

    @property
    def job_ids(self) -> list[str]:
        return sorted(self._jobs)

    def instants(self, job_id: str) -> list[int]:
        """When anything was told that may concern the job, sorted."""
        return sorted({one.log_ms for one in (*self._jobs[job_id], *self._prices, *self._controls)})

    def controls(self, at_ms: int) -> list[Json]:
        """The controls that stand."""
        return list(standing(body(x.line) for x in _by(self._controls, at_ms)).values())

    def burn(self, job_id: str, at_ms: int) -> Burn | None:
        """The job as known at an instant; None when nothing is."""
        lines = self._jobs[job_id]
        known = (_count(lines, at_ms), _count(self._prices, at_ms), _count(self._controls, at_ms))
        before = self._last.get(job_id)
        if before is None or before[0] != known:
            log = self._log(job_id, lines[: known[0]])
            made = None if log is None else burn(job_id, log, self._book(at_ms), self.controls(at_ms))
            before = self._last[job_id] = (known, made)
        return before[1]

    def _log(self, job_id: str, lines: Sequence[Told]) -> JobLog | None:
        """What is accepted of the job's first lines: those after the last asked about are taken in, unless it asks about earlier ones."""
        intake, taken = self._taken.pop(job_id, (None, 0))
        if intake is None or taken > len(lines):
            intake, taken = (
                Intake(job_horizon_ms=None, late_horizon_s=self._late_horizon_s, run_start_ms=None),
                0,
            )
        for one in lines[taken:]:
            intake.take(one.line)
        self._taken[job_id] = (intake, len(lines))
        return intake.accepted.jobs.get(job_id)

    def _book(self, at_ms: int) -> PriceBook:
        prices = _by(self._prices, at_ms)
        if len(prices) not in self._books:
            self._books[len(prices)] = PriceBook(body(one.line) for one in prices)
        return self._books[len(prices)]


def _count(told: Sequence[Told], at_ms: int) -> int:
    return bisect_right(told, at_ms, key=lambda one: one.log_ms)


def _by(told: Sequence[Told], at_ms: int) -> Sequence[Told]:
    return told[: _count(told, at_ms)]
