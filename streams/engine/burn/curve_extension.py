"""Extends the curves of sampled jobs that change only at their end, all in one kernel call.

In general a curve is rebuilt (`curves`); where a job is billed by samples alone and only samples arrived, only the
minutes from the first one that they touch are rebuilt. The resulting curve must be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.durations import MINUTE_MS
from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.arrays import I64, Records
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.curve_extension import TAIL
from streams.engine.ledger.gpu_rates import UNPRICED, GpuRate, GpuRates
from streams.engine.pricing.context import Payer
from streams.engine.state.attempt import AttemptState, Winner
from streams.engine.state.job import JobState
from streams.engine.windows.curves import CurveBook
from streams.engine.windows.expected import Expected

#: The longest window, its partial minute, and one more.
DETAIL_MS: Final = WINDOWS_MS[-1] + 2 * MINUTE_MS
#: A tail has at most this many minutes.
_MINUTES_AT_MOST: Final = 60
#: Detail that no window needs is dropped at this interval.
_TRIM_MS: Final = 7_200_000


@dataclass(slots=True)
class CurveTail:
    """The inputs of the end of a job's curve, as of its last complete build.

    `alone_from`: from this minute on no other attempt's samples and no billed time count. `is_whole`: there never were
    any, and nothing was declared or planned, so that all minutes may be built this way.
    """

    attempt: int
    alone_from: int
    is_whole: bool
    begin: int  # the first metered minute, whose rate is quoted
    newest: int  # the last one
    built_ms: int
    usual: Winner  # its newest sample then: nearly all samples have the same price fields
    payer: Payer
    expected: Expected
    holds_ms: int
    rate: GpuRate | None = None  # of the usual sample


class CurveExtension:
    """Collects the tails of one update; `store` builds them."""

    def __init__(self, rates: GpuRates, coverage: Coverage, now_ms: int) -> None:
        self.now_ms = now_ms
        self.rates = rates
        self._coverage = coverage
        self._since = (now_ms - DETAIL_MS) // MINUTE_MS
        self._entries: list[tuple[int | float | None, ...]] = []
        self._minutes: list[int] = []
        self._rows: list[int] = []
        self._holders: list[int] = []
        self._whole: list[tuple[int, CurveTail]] = []  # index of the entry

    def prolong(self, job: JobState, tail: CurveTail, curves: CurveBook) -> bool:
        """Add the new minutes of a job of which nothing else changed; return whether that is possible."""
        attempt = job.attempts[tail.attempt]
        fresh = attempt.fresh_minutes
        if not fresh or not _is_alone(job, attempt):
            return False
        first, last = min(fresh), max(fresh)
        if last < tail.newest:
            last = tail.newest
        whole = first <= tail.begin
        fits = tail.is_whole if whole else first >= tail.alone_from and first >= self._since
        if not fits or last - first > _MINUTES_AT_MOST or self.now_ms - tail.built_ms > _TRIM_MS:
            return False
        rate = None  # quoted
        if not whole:
            rate = tail.expected.constant(first * MINUTE_MS, (last + 1) * MINUTE_MS)
            if rate is None:
                return False
        if not self._add_minutes(job.id, tail, attempt, range(first, last + 1), first, rate, curves):
            return False
        tail.newest = last
        if whole:
            tail.begin = first
        return True

    def build(self, job: JobState, tail: CurveTail, curves: CurveBook) -> bool:
        """Add all minutes of a job that a window needs; return whether that is possible."""
        attempt = job.attempts[tail.attempt]
        first, last = tail.begin, tail.newest
        for winner in {winner.fields: winner for winner in attempt.winners.values()}.values():
            # Unpriced time before the windows counts, too: the general path accounts for it.
            if not self.rates.of(winner, tail.payer).is_priced(first, last):
                return False
        minutes = [first, *range(max(self._since, first + 1), last + 1)]
        return self._add_minutes(job.id, tail, attempt, minutes, first, None, curves)

    def _add_minutes(
        self,
        job_id: str,
        tail: CurveTail,
        attempt: AttemptState,
        minutes: Sequence[int],
        first: int,
        expected_per_hour: float | None,
        curves: CurveBook,
    ) -> bool:
        """Add the minutes that have samples; return whether all of them have a price."""
        winners, fields = attempt.winners, tail.usual.fields
        usual = tail.rate
        if usual is None:
            usual = tail.rate = self.rates.of(tail.usual, tail.payer)
        minute_at, holder_at = len(self._minutes), len(self._holders)
        last = minutes[-1]
        for minute in minutes:
            winner = winners.get(minute)
            if winner is None:
                continue
            is_usual = winner.fields == fields
            row = (usual if is_usual else self.rates.of(winner, tail.payer)).row(minute)
            if row == UNPRICED or (not is_usual and minute == last):  # then its holders may differ, too
                del self._minutes[minute_at:], self._rows[minute_at:]
                return False
            self._minutes.append(minute)
            self._rows.append(row)
        self._holders += self._coverage.holders_of(job_id, attempt.number)
        whole = expected_per_hour is None
        if whole:
            self._whole.append((len(self._entries), tail))
        self._entries.append(
            (
                curves.slot(job_id),
                first * MINUTE_MS,
                whole,
                float("nan") if whole else expected_per_hour,
                tail.holds_ms,
                minute_at,
                len(self._minutes) - minute_at,
                holder_at,
                len(self._holders) - holder_at,
                0,
            )
        )
        attempt.fresh_minutes.clear()
        return True

    def store(self, curves: CurveBook) -> None:
        """Build all tails that were added."""
        if not self._entries:
            return
        tails = np.array(self._entries, TAIL)
        minutes, holders = np.array(self._minutes, np.int64), np.array(self._holders, np.int64)
        self._unpack(tails, minutes, holders)
        curves.extend(
            tails, minutes, np.array(self._rows, np.int64), self.rates.table, holders, self._coverage.store
        )
        for place, tail in self._whole:
            tail.expected = Expected((), (), float(tails["expected_per_hour"][place]))

    def _unpack(self, tails: Records, minutes: I64, holders: I64) -> None:
        """Unpack old coverage rows before the kernel reads them."""
        if int(minutes.min(initial=self._coverage.packed_to)) >= self._coverage.packed_to:
            return
        for tail in tails:
            of = slice(tail["holder_at"], tail["holder_at"] + tail["holders"])
            self._coverage.unpack(
                holders[of], minutes[tail["minute_at"] : tail["minute_at"] + tail["minutes"]]
            )


def _is_alone(job: JobState, attempt: AttemptState) -> bool:
    """Return whether only samples of this attempt are new in the job."""
    if attempt.fresh_traffic:
        return False
    return len(job.attempts) == 1 or not any(
        other.fresh_traffic or (other.fresh_minutes and other is not attempt)
        for other in job.with_usage.values()
    )
