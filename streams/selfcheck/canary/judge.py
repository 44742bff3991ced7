"""Decides whether each canary run is right, wrong or late.

Observations are handed in with their instant (monotonic ms).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from streams.selfcheck.canary.plan import (
    EXPECTED_NANO,
    NETWORK_BYTES,
    RUN_MS,
    SAMPLED_GPU_S,
    CanaryOptions,
    CanaryRun,
    run_at,
)

Outcome = Literal["right", "late", "wrong"]

#: Runs watched concurrently; while the store is unavailable, older ones keep their outcome.
_RUNS_AT_MOST: Final = 16
_FIRST_LOOK_MS: Final = 250
_LAST_LOOK_MS: Final = 1_000


class CanaryRows(NamedTuple):
    """The stored rows of a run's job."""

    state: str
    wall_clock_ms: int
    cost_nano: int
    sampled_gpu_s: int
    network_bytes: int

    @property
    def is_complete(self) -> bool:
        """Whether all of its events are stored, as the job's latest event time shows."""
        ended = self.state == "completed" and self.wall_clock_ms == RUN_MS
        return ended and self.sampled_gpu_s >= SAMPLED_GPU_S and self.network_bytes >= NETWORK_BYTES

    def exact(self, tolerance_ratio: float) -> bool:
        """Whether everything equals the known values."""
        near = abs(self.cost_nano - EXPECTED_NANO) <= tolerance_ratio * EXPECTED_NANO
        return near and self.sampled_gpu_s == SAMPLED_GPU_S and self.network_bytes == NETWORK_BYTES

    def __str__(self) -> str:
        """Describe it for the row and the page."""
        cost = f"cost {self.cost_nano} nano-dollars instead of {EXPECTED_NANO}"
        return f"{cost}, {self.sampled_gpu_s} sampled GPU-seconds, {self.network_bytes} bytes"


class CanaryResult(NamedTuple):
    """The outcome of a run; a later result of the same run replaces it."""

    run: CanaryRun
    outcome: Outcome
    found_nano: int | None
    delay_ms: int | None
    detail: str


@dataclass(eq=False)
class _Watched:
    run: CanaryRun
    begun_ms: int
    acknowledged_ms: int | None = None
    why_not: str = ""
    why_late: str = ""
    outcome: Outcome | None = None
    delay_ms: int | None = None  # None: not found exact yet
    deviates_since_ms: int | None = None
    closed: bool = False
    looked_ms: int | None = None


class CanaryJudge:
    """The runs of one owner; `results` are for the caller to store.

    A run is late if it is not in the tables `late_after_ms` after its last event was acknowledged. It is wrong if its
    complete rows deviate for as long as that, at the first check or at a second one an interval later. So neither a
    half-stored checkpoint nor an unavailable store makes a run wrong.
    """

    def __init__(self, options: CanaryOptions) -> None:
        self._options = options
        self._slot: int | None = None
        self._watched: list[_Watched] = []
        self.results: list[CanaryResult] = []
        # The run that opened the alert; None: closed; absent while unknown.
        self.opened: dict[Outcome, CanaryResult | None] = {}

    # -- when ----------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> CanaryRun | None:
        """The run that is due at this instant, once; the first one is at the beginning of an interval."""
        slot, last = now_ms // self._options.interval_ms, self._slot
        if last is not None and last - 1 <= slot <= last:
            return None
        self._slot = slot
        return None if last is None else run_at(slot * self._options.interval_ms, self._options)

    def start_run(self, run: CanaryRun, at_ms: int) -> None:
        """Record that the run's events are being sent."""
        self._watched = [*self._watched[-_RUNS_AT_MOST + 1 :], _Watched(run, at_ms)]

    def acknowledged(self, run: CanaryRun, at_ms: int) -> None:
        """Record that all events of the run are in the log."""
        for each in self._watched:
            if each.run == run:
                each.acknowledged_ms = at_ms

    def not_sent(self, run: CanaryRun, why: str) -> None:
        """Record that not all events of the run are in the log, and never will be."""
        for each in self._watched:
            if each.run == run:
                each.why_not = why

    def wanted(self, at_ms: int) -> list[str]:
        """The jobs to check now."""
        return [each.run.job_id for each in self._watched if self._is_wanted(each, at_ms)]

    def _is_wanted(self, each: _Watched, at_ms: int) -> bool:
        if each.closed or each.acknowledged_ms is None:
            return False
        if each.delay_ms is not None and each.deviates_since_ms is None:
            return at_ms - each.begun_ms >= self._options.interval_ms  # the second check
        if each.looked_ms is None:
            return True
        # Check less often the longer it takes: a meter that stands still has other problems.
        pause_ms = min(max(_FIRST_LOOK_MS, (at_ms - each.acknowledged_ms) // 20), _LAST_LOOK_MS)
        return at_ms - each.looked_ms >= pause_ms

    # -- what ----------------------------------------------------------------------------------------------

    def compare(self, asked: Collection[str], found: Mapping[str, CanaryRows], at_ms: int) -> None:
        """Process the stored rows of the requested jobs."""
        for each in self._watched:
            if each.run.job_id in asked and not each.closed and each.acknowledged_ms is not None:
                each.looked_ms = at_ms
                self._compare_run(each, found.get(each.run.job_id), each.acknowledged_ms, at_ms)

    def blind(self) -> None:
        """Record a failed check: a deviation seen before may be corrected by now."""
        for each in self._watched:
            each.deviates_since_ms = None

    def pass_time(self, at_ms: int) -> None:
        """Find runs that are late by now."""
        for each in self._watched:
            since_ms = each.begun_ms if each.acknowledged_ms is None else each.acknowledged_ms
            waits = each.outcome is None and each.deviates_since_ms is None
            if waits and at_ms - since_ms > self._options.late_after_ms:
                each.why_late = self._why_late(each)
                self._add_result(each, "late", None, each.why_late)
        self._watched = [each for each in self._watched if not each.closed]

    def _compare_run(
        self, each: _Watched, found: CanaryRows | None, acknowledged_ms: int, at_ms: int
    ) -> None:
        second = each.delay_ms is not None
        if found is None and second:
            found = CanaryRows("", 0, 0, 0, 0)  # the rows existed before
        if found is None or not (found.is_complete or second):
            each.deviates_since_ms = None
        elif found.exact(self._options.tolerance_ratio):
            each.deviates_since_ms = None
            each.closed = at_ms - each.begun_ms >= self._options.interval_ms
            if not second:
                each.delay_ms = at_ms - acknowledged_ms
                in_time = each.outcome is None and each.delay_ms <= self._options.late_after_ms
                came = f"it came after {each.delay_ms} ms"
                detail = "" if in_time else f"{each.why_late}; {came}" if each.why_late else came
                self._add_result(each, "right" if in_time else "late", found, detail)
        else:
            if each.deviates_since_ms is None:
                each.deviates_since_ms = at_ms
            if at_ms - each.deviates_since_ms >= self._options.late_after_ms:
                each.closed = True
                self._add_result(each, "wrong", found, str(found))

    def _why_late(self, each: _Watched) -> str:
        after_s = f"{self._options.late_after_ms / 1000:g} s"
        if each.acknowledged_ms is not None:
            return f"not in the tables {after_s} after its last event"
        return each.why_not or f"not acknowledged by Kafka within {after_s}"

    def _add_result(self, each: _Watched, outcome: Outcome, found: CanaryRows | None, detail: str) -> None:
        first, each.outcome = each.outcome is None, outcome
        cost_nano = None if found is None else found.cost_nano
        result = CanaryResult(each.run, outcome, cost_nano, each.delay_ms, detail)
        self.results.append(result)
        if outcome == "wrong" or (outcome == "late" and first):
            self._open(outcome, result)
        if outcome == "right":
            self._clear("late", each.run)
        if outcome != "wrong" and found is not None:
            self._clear("wrong", each.run)

    def _open(self, outcome: Outcome, result: CanaryResult) -> None:
        if self.opened.get(outcome) is None:
            self.opened[outcome] = result

    def _clear(self, outcome: Outcome, run: CanaryRun) -> None:
        """Close the alert; only a run that was due after the one that opened it may do so."""
        opened = self.opened.get(outcome)
        if opened is None or run.at_ms > opened.run.at_ms:
            self.opened[outcome] = None
