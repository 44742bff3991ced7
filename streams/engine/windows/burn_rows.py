"""Chooses which burn rates are written, and builds their rows as an Arrow table.

Window sums are handed in, and are divided and rounded to nano-dollars here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.columns import instants_of, money, table_of, take_text
from schemas.durations import MINUTE_MS
from schemas.tables import BURN_RATES, SCHEMAS
from streams.engine.kernels.arrays import F64, I64, Records, exact
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.kernels.burn import WINDOWS_MS, Bool
from streams.engine.kernels.due import FORGOTTEN, LAST_ROW, NONE, choose_rows, write_rows
from streams.engine.windows.figures import WindowFigures, per_hour, ratios

_JUDGED: Final = WINDOWS_MS.index(900_000)
_RATE_COLUMNS: Final = ("usd_per_hour", "usd_per_hour_15m", "usd_per_hour_1h", "usd_per_hour_6h")
_SMALLEST: Final = 16
_FEW: Final = 8


class LastRow(NamedTuple):
    """The last row of a job, for the row policy; `kind` as in the kernel."""

    job_id: str
    now_nano_per_hour: int
    expected_nano_per_hour: int
    kind: int


class Chosen(NamedTuple):
    """Which (ticks, jobs) are written, and how many."""

    flags: Bool  #: [tick, job]
    rows: int


class RowPolicy:
    """Chooses ticks and jobs whose burn rate is written; remembers the last row of each job.

    An open job: whenever its rate or expected rate differs from its last row, and at each whole minute from its first
    billed instant on. An ended job: at the first tick after its end, each minute for 15 minutes, then every tenth until
    its longest window is empty, which is its last row.
    """

    __slots__ = ("_free", "_index", "_index_of", "_last", "_rows")

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._last: Records = np.zeros(_SMALLEST, LAST_ROW)
        self._index_of: tuple[str, ...] | None = None
        self._index: I64 = np.zeros(0, np.int64)

    def choose(self, times_ms: I64, job_ids: tuple[str, ...], figures: WindowFigures) -> Chosen:
        """Choose which figures are written. They count as written from now on.

        Raises:
            ValueError: The figures have another shape than (ticks, jobs).
        """
        ticks = exact(times_ms, np.int64)
        if figures.shape != (len(ticks), len(job_ids)):
            raise ValueError(f"figures of {figures.shape} for {len(ticks)} ticks and {len(job_ids)} jobs")
        if job_ids is not self._index_of:
            self._index = np.array([self._row_of(job_id) for job_id in job_ids], np.int64)
            self._index_of = job_ids
        chosen = np.empty(figures.shape, np.bool_)
        rows = choose_rows(
            ticks,
            figures.now_rate,
            figures.expected_rate,
            figures.ended,
            figures.cost_nano,
            figures.elapsed_ms,
            figures.ended_ms,
            self._index,
            self._last,
            chosen,
        )
        return Chosen(chosen, int(rows))

    def forget_row(self, job_id: str) -> None:
        """Forget the last row of a restored job: a former owner may have written any."""
        row = self._row_of(job_id)  # which may reallocate
        if self._last[row]["kind"] == NONE:
            self._last[row]["kind"] = FORGOTTEN

    def drop(self, job_id: str) -> None:
        """Forget a job, if it is known."""
        row = self._rows.pop(job_id, None)
        if row is not None:
            self._free.append(row)
            self._last[row] = 0
            self._index_of = None

    def dump(self) -> list[LastRow]:
        """The last rows of all jobs that have one."""
        entries = ((job_id, self._last[row]) for job_id, row in sorted(self._rows.items()))
        return [
            LastRow(job_id, int(entry["now_rate"]), int(entry["expected_rate"]), int(entry["kind"]))
            for job_id, entry in entries
            if entry["kind"] not in (NONE, FORGOTTEN)
        ]

    def load(self, dumped: Iterable[LastRow]) -> None:
        """Add rows from `dump`."""
        for job_id, now, expected, kind in dumped:
            row = self._row_of(job_id)
            self._last[row] = (now, expected, kind)

    def _row_of(self, job_id: str) -> int:
        row = self._rows.get(job_id)
        if row is None:
            if not self._free:
                size = len(self._rows)
                if size == len(self._last):
                    self._last = np.concatenate((self._last, np.zeros(max(size // 2, _SMALLEST), LAST_ROW)))
                self._free.append(size)
            row = self._rows[job_id] = self._free.pop()
        return row


class BurnRows:
    """Burn rates that wait to be stored, as arrays: a call often adds only a row or two."""

    __slots__ = ("_columns", "_jobs", "count")

    def __init__(self) -> None:
        self.count = 0  #: rows that wait
        # Up to which row the column `job` holds places in which names: a tick of all jobs makes no list of names.
        self._jobs: list[tuple[int, Sequence[str]]] = []
        self._columns = _Columns.empty(0)

    def add(self, times_ms: I64, job_ids: Sequence[str], figures: WindowFigures, chosen: Chosen) -> None:
        """Add rows of the chosen (ticks, jobs)."""
        if not chosen.rows:
            return
        first, end = self.count, self.count + chosen.rows
        if end > len(self._columns.times_ms):
            self._columns = self._columns.longer(first, max(end, first * 2))
        write_rows(
            times_ms,
            chosen.flags,
            figures.now_rate,
            figures.expected_rate,
            figures.cost_nano,
            figures.elapsed_ms,
            figures.expected_nano,
            _JUDGED,
            first,
            *self._columns,
        )
        self.count = end
        if chosen.rows * _FEW < len(job_ids):  # do not keep all names for a few rows
            jobs = self._columns.job[first:end]
            job_ids = [job_ids[job] for job in jobs.tolist()]
            jobs[:] = np.arange(chosen.rows)
        self._jobs.append((end, job_ids))

    def drain(self, shard: int, version: int) -> pa.Table | None:
        """The waiting rows of `burn_rates` under this version, and forget them; None if there are none."""
        if not self.count:
            return None
        rows = self._columns.first(self.count)
        rates = per_hour(rows.cost_nano, rows.elapsed_ms)
        columns = {
            "time": instants_of(rows.times_ms),
            "job_id": self._names(rows.job),
            **{name: _usd(rates[:, window]) for window, name in enumerate(_RATE_COLUMNS)},
            "expected_usd_per_hour": _usd(rows.expected_rate),
            "usd_per_hour_now": _usd(rows.now_rate),
            "ratio_15m": pa.array(ratios(rows.cost_nano[:, _JUDGED], rows.expected_nano)),
            "shard": pa.array(np.full(self.count, shard, np.uint16)),
            "version": pa.array(np.full(self.count, version, np.uint64)),
        }
        # The table may keep references to these columns.
        self.count, self._jobs, self._columns = 0, [], _Columns.empty(0)
        return table_of(SCHEMAS[BURN_RATES], columns)

    def _names(self, jobs: I64) -> pa.Array:
        """The name of each row's job. Calls one after another mostly have the same names: these are made one text each."""
        names: list[str] = []
        last: Sequence[str] = ()
        places, first, base = np.empty(len(jobs), np.int32), 0, 0
        for end, job_ids in self._jobs:
            if job_ids is not last:
                base, last = len(names), job_ids
                names += job_ids
            places[first:end] = jobs[first:end] + base
            first = end
        return take_text(names, places)


class _Columns(NamedTuple):
    """Preallocated columns in the kernel's order; windows are those of WINDOWS_MS."""

    times_ms: I64
    job: I64
    now_rate: F64  # nano-dollars per hour
    expected_rate: F64
    cost_nano: F64  # [row, window]
    elapsed_ms: I64  # [row, window]
    expected_nano: F64  # of the window that is judged

    @classmethod
    def empty(cls, room: int) -> _Columns:
        """Columns of that length, not initialised."""
        wide = (room, len(WINDOWS_MS))
        return cls(
            times_ms=np.empty(room, np.int64),
            job=np.empty(room, np.int64),
            now_rate=np.empty(room),
            expected_rate=np.empty(room),
            cost_nano=np.empty(wide),
            elapsed_ms=np.empty(wide, np.int64),
            expected_nano=np.empty(room),
        )

    def longer(self, count: int, room: int) -> _Columns:
        """The first `count` rows with room for more."""
        found = _Columns.empty(room)
        for mine, column in zip(self, found, strict=True):
            column[:count] = mine[:count]
        return found

    def first(self, count: int) -> _Columns:
        """The first `count` rows."""
        return _Columns._make(column[:count] for column in self)


def _usd(nano: F64) -> pa.Array:
    """Round nano-dollars, and cap them at what a Decimal(18, 9) holds."""
    # The cap itself is not representable as float64.
    whole = np.minimum(np.rint(nano), 2.0**62).astype(np.int64)
    return money(np.minimum(whole, MAX_COST_NANO))


def ticks_with_rows(times_ms: I64, first: int) -> Bool:
    """Which ticks ([tick] bool) have rows while nothing changes: whole minutes, and the ticks up to `first`."""
    have: Bool = times_ms % MINUTE_MS == 0
    have[: first + 1] = True
    return have
