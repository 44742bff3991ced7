"""Stores the curves of all live jobs of a shard in flat arrays for the kernel.

Returned arrays belong to the caller; internal ones never leave this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import MINUTE_MS, NEVER_MS
from streams.engine.kernels.arrays import F64, I64, Records, exact
from streams.engine.kernels.burn import CURVE, FACT, LUMP, STEP, fill_figures, find_facts
from streams.engine.kernels.curve_extension import write_tails
from streams.engine.kernels.steady import BUSY, UNKNOWN, is_steady
from streams.engine.kernels.store import CoverageStore
from streams.engine.timeline.attempts import OPEN_MS
from streams.engine.windows.curve import Curve, CurveStep, are_in_bursts
from streams.engine.windows.figures import WindowFigures


class Fact(NamedTuple):
    """The condition of a rule holds in [from, until), and explains this share of what accrues meanwhile."""

    rule: int
    from_ms: int
    until_ms: int
    explained_ratio: float = 0.0


_SMALLEST: Final = 16
#: Of the GPUs of a job: its samples from a minute on make up a share of productive time in each window that has them.
_PRODUCTIVE: Final = np.dtype([("since_minute", np.int64), ("ratio", np.float64)])
_NOTHING_NOTED: Final = np.array((-1, 0.0), _PRODUCTIVE)
#: Up to this many steps are written row by row, which is faster than a numpy call.
_FEW_STEPS: Final = 16


class CurveBook:
    """Curves by job; replacing or dropping one takes amortised time proportional to its length."""

    __slots__ = (
        "_curves",
        "_facts",
        "_ids",
        "_job_ids",
        "_lumps",
        "_productive",
        "_slots",
        "_steady_ms",
        "_steps",
    )

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._ids: list[str] = []  # by slot; slots are contiguous
        self._job_ids: tuple[str, ...] | None = ()
        self._curves = np.zeros(_SMALLEST, CURVE)
        self._steady_ms = np.zeros(_SMALLEST, np.int64)  # by slot; computed lazily
        self._productive = np.zeros(_SMALLEST, _PRODUCTIVE)  # by slot
        self._steps = _Arena(STEP, "step_at", "steps", "step_room")
        self._lumps = _Arena(LUMP, "lump_at", "lumps", "lump_room")
        self._facts = _Arena(FACT, "fact_at", "facts", "fact_room")

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._slots

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The jobs in the order of the figures; the same object until a job is added or removed."""
        if self._job_ids is None:
            self._job_ids = tuple(self._ids)
        return self._job_ids

    def slot(self, job_id: str) -> int:
        """The job's slot, valid until any job is dropped; a new job has no steps and is open."""
        slot = self._slots.get(job_id)
        if slot is None:
            slot = self._slots[job_id] = len(self._ids)
            self._ids.append(job_id)
            self._job_ids = None
            if slot == len(self._curves):
                room = max(slot // 2, _SMALLEST)
                self._curves = np.concatenate((self._curves, np.zeros(room, CURVE)))
                self._steady_ms = np.concatenate((self._steady_ms, np.zeros(room, np.int64)))
                self._productive = np.concatenate((self._productive, np.zeros(room, _PRODUCTIVE)))
            self._steady_ms[slot] = BUSY
            self._productive[slot] = _NOTHING_NOTED
            self._curves[slot] = 0
            self._curves[slot]["ended_ms"] = self._curves[slot]["deadline_ms"] = NEVER_MS
        return slot

    def extend(
        self, tails: Records, minute: I64, rate_row: I64, rates: F64, holder: I64, store: CoverageStore
    ) -> None:
        """Rebuild the ends of curves (see the kernel); tails of whole curves are of open jobs, with a price for all their time."""
        whole = tails["slot"][tails["whole"] != 0]
        self._curves["ended_ms"][whole] = NEVER_MS
        self._curves["undecided_until_ms"][whole] = 0
        self._steady_ms[tails["slot"]] = BUSY  # samples keep arriving
        built = np.empty(int(tails["minutes"].max(initial=0)) * 61 + 2, STEP)
        seconds, todo = np.empty(60, np.int64), tails
        lists = minute, rate_row, rates, holder, store
        while write_tails(todo, *lists, self._curves, self._steps.rows, seconds, built):
            missed = todo["wants"] > 0
            todo = todo[missed]
            for slot, wants in zip(todo["slot"].tolist(), todo["wants"].tolist(), strict=True):
                self._steps.reserve(self._curves[: len(self._ids)], slot, wants)

    def last_ms(self, job_id: str) -> int:
        """The last instant at which the job has a cost or waits for a next attempt, NEVER_MS while it accrues cost.

        Raises:
            KeyError: The job has no curve.
        """
        entry = self._curves[self._slots[job_id]]
        step = self._steps.rows[entry["step_at"] + entry["steps"] - 1]
        if step["paid"] or step["cost_rate"]:
            return NEVER_MS
        last_ms = max(int(step["from_ms"]), int(entry["undecided_until_ms"]), 0)
        if entry["lumps"]:
            last_minute = int(self._lumps.rows["minute"][entry["lump_at"] + entry["lumps"] - 1])
            last_ms = max(last_ms, (last_minute + 1) * MINUTE_MS)
        return last_ms

    def replace(self, curve: Curve) -> None:
        """Add a curve, or replace the job's present one."""
        slot = self.slot(curve.job_id)
        entry = self._curves[slot]
        entry["first_paid_ms"] = curve.first_paid_ms
        entry["ended_ms"] = curve.ended_ms
        entry["undecided_until_ms"] = curve.undecided_until_ms
        entry["holds_ms"] = curve.holds_ms
        entry["start_cost"], entry["on_gpus"], entry["in_bursts"] = (
            curve.start_nano,
            curve.on_gpus,
            curve.in_bursts,
        )
        curves = self._curves[: len(self._ids)]
        steps = self._steps.place(curves, slot, len(curve.steps))
        self._steady_ms[slot] = UNKNOWN
        _fill_steps(steps, curve.steps)
        if curve.lumps or entry["lumps"]:
            lumps = self._lumps.place(curves, slot, len(curve.lumps))
            _fill_lumps(lumps, curve.lumps)

    def set_lumps(self, job_id: str, lumps: Sequence[tuple[int, float]], start_nano: float) -> None:
        """Replace the lumps of a curve, (minute, nano-dollars) ascending, and what those of its start cost.

        Raises:
            KeyError: The job has no curve.
        """
        slot = self._slots[job_id]
        entry = self._curves[slot]
        entry["start_cost"], entry["in_bursts"] = start_nano, are_in_bursts(lumps)
        self._steady_ms[slot] = UNKNOWN
        _fill_lumps(self._lumps.place(self._curves[: len(self._ids)], slot, len(lumps)), lumps)

    def drop(self, job_id: str) -> None:
        """Remove a job.

        Raises:
            KeyError: The job has no curve.
        """
        slot = self._slots.pop(job_id)
        self._job_ids = None
        self._steps.release(self._curves[slot])
        self._lumps.release(self._curves[slot])
        self._facts.release(self._curves[slot])
        last_id = self._ids.pop()
        if last_id != job_id:
            self._curves[slot] = self._curves[len(self._ids)]
            self._steady_ms[slot] = self._steady_ms[len(self._ids)]
            self._productive[slot] = self._productive[len(self._ids)]
            self._ids[slot] = last_id
            self._slots[last_id] = slot

    def set_facts(
        self, job_id: str, facts: Sequence[Fact], deadline_ms: int, profile: int, turn: int = 0
    ) -> None:
        """Set what is known of the rules of a job: when facts hold, its deadline, which settings apply, and its turn.

        Raises:
            KeyError: The job has no curve.
        """
        slot = self._slots[job_id]
        entry = self._curves[slot]
        if entry["profile"] != profile and self._steady_ms[slot] != BUSY:
            self._steady_ms[slot] = UNKNOWN
        entry["deadline_ms"], entry["profile"], entry["turn"] = deadline_ms, profile, turn
        if facts or entry["facts"]:
            rows = self._facts.place(self._curves[: len(self._ids)], slot, len(facts))
            if facts:
                rows[:] = list(facts)

    @property
    def turns(self) -> I64:
        """The turn of each job ([job] int64)."""
        return self._curves["turn"][: len(self._ids)].copy()

    def in_turn(self, turn: int, at_ms: int, old_ms: int) -> I64:
        """The slots ([n] int64) of the jobs with this turn that have not ended and first accrued cost `old_ms` ago or earlier."""
        curves = self._curves[: len(self._ids)]
        slots = np.flatnonzero(curves["turn"] == turn)
        first_ms = curves["first_paid_ms"][slots]
        return slots[(curves["ended_ms"][slots] > at_ms) & (first_ms >= 0) & (first_ms <= at_ms - old_ms)]

    def note_productive(self, slots: I64, since_minute: I64, ratio: F64) -> None:
        """Note from which minute on the GPUs of these jobs ([n] each) are known to reach a share of productive time."""
        self._productive["since_minute"][slots] = since_minute
        self._productive["ratio"][slots] = ratio

    def are_noted(self, slots: I64, since_minute: int, ratio: F64) -> NDArray[np.bool_]:
        """Whether jobs ([n] bool) reach these shares in the window from a minute on, by what was noted."""
        noted = self._productive[slots]
        return (noted["since_minute"] >= since_minute) & (noted["ratio"] >= ratio)

    def forget_noted(self, job_ids: Iterable[str]) -> None:
        """Forget what was noted of the GPUs of those of these jobs that have a curve."""
        slots = [slot for slot in map(self._slots.get, job_ids) if slot is not None]
        if slots:
            self._productive[slots] = _NOTHING_NOTED

    def profiles(self, slots: I64) -> I64:
        """Which settings apply to these jobs ([n] int64)."""
        found: I64 = self._curves["profile"][slots]
        return found

    def paid_since_ms(self, job_id: str, until_ms: int) -> int:
        """Since when the job has accrued cost at every instant before this one; this one, if it did not just before it.

        Raises:
            KeyError: The job has no curve.
        """
        entry = self._curves[self._slots[job_id]]
        steps = self._steps.rows[entry["step_at"] : entry["step_at"] + entry["steps"]]
        count = int(np.searchsorted(steps["from_ms"], until_ms))
        unpaid = np.flatnonzero(steps["paid"][:count] == 0)
        first = int(unpaid[-1]) + 1 if len(unpaid) else 0
        return int(steps["from_ms"][first]) if first < count else until_ms

    def accrued(self, job_id: str, from_ms: int, until_ms: int) -> float:
        """What the job accrues with time in [from, until), in nano-dollars.

        Raises:
            KeyError: The job has no curve.
        """
        entry = self._curves[self._slots[job_id]]
        steps = self._steps.rows[entry["step_at"] : entry["step_at"] + entry["steps"]]
        sums = []
        for at_ms in (from_ms, until_ms):
            place = int(np.searchsorted(steps["from_ms"], at_ms, "right")) - 1
            step = steps[max(place, 0)]
            sums.append(float(step["cost_sum"] + step["cost_rate"] * max(at_ms - step["from_ms"], 0)))
        return sums[1] - sums[0]

    def has_not_ended(self, job_id: str, at_ms: int) -> bool:
        """Whether the job goes on at an instant.

        Raises:
            KeyError: The job has no curve.
        """
        return int(self._curves["ended_ms"][self._slots[job_id]]) > at_ms

    def with_fact(self, rule: int, first_ms: int, last_ms: int, turn: int) -> tuple[I64, I64]:
        """The slots ([n] int64) of the jobs of which the fact holds at any instant of [first, last].

        Of jobs with this turn also if it holds before their next one. And the row ([n] int64) of the first such fact of each, valid until any fact is set.
        """
        slots, rows = np.empty(len(self._ids), np.int64), np.empty(len(self._ids), np.int64)
        curves = self._curves[: len(self._ids)]
        count = find_facts(curves, self._facts.rows, rule, first_ms, last_ms, turn, slots, rows)
        return slots[:count], rows[:count]

    def postpone(self, rows: I64, from_ms: I64) -> None:
        """Let the facts in these rows ([n] each) begin then, unless they begin later already."""
        facts = self._facts.rows
        facts["from_ms"][rows] = np.maximum(facts["from_ms"][rows], from_ms)

    def first_paid_ms(self, job_id: str) -> int:
        """The first paid instant of a job; -1: none.

        Raises:
            KeyError: The job has no curve.
        """
        return int(self._curves[self._slots[job_id]]["first_paid_ms"])

    def facts_until_ms(self, job_id: str) -> int:
        """The last instant at which a fact changes; 0 if none does.

        Raises:
            KeyError: The job has no curve.
        """
        entry = self._curves[self._slots[job_id]]
        rows = self._facts.rows[entry["fact_at"] : entry["fact_at"] + entry["facts"]]
        return max((each[2] for each in rows.tolist() if each[2] < OPEN_MS), default=0)

    def is_steady(
        self,
        first_ms: int,
        last_ms: int,
        notified_until_ms: Callable[[Sequence[str], int], I64],
        longest_ms: I64,
        least_ratio: F64,
    ) -> bool:
        """Whether in [first, last] no job's cost can open an alert, all keep their rates, and no fact may hold.

        Then no alert can open, and rows change only at whole minutes. Nothing may begin, end or change in the interval;
        a job whose cost comes of samples or amounts is never steady. `longest_ms` ([profile]): how long a job may accrue cost,
        until `notified_until_ms` (of the jobs, as of the first tick) longer than that; `least_ratio` ([profile]): the least ratio of cost to expected cost at which a rule opens.
        """
        steady_ms = self._steady_ms[: len(self._ids)]
        if bool((steady_ms == BUSY).any()):
            return False
        notified_ms = notified_until_ms(self.job_ids, first_ms)
        rows = self._steps.rows, self._facts.rows
        return bool(
            is_steady(steady_ms, self._curves, *rows, notified_ms, longest_ms, least_ratio, first_ms, last_ms)
        )

    def minutes(self, job_id: str, first: int, count: int) -> F64:
        """The cost of each of `count` minutes since 1970 from `first` on ([count] float64, nano-dollars).

        Raises:
            KeyError: The job has no curve.
        """
        entry = self._curves[self._slots[job_id]]
        edges_ms = (first + np.arange(count + 1, dtype=np.int64)) * MINUTE_MS
        steps = self._steps.rows[entry["step_at"] : entry["step_at"] + entry["steps"]]
        begin = max(int(np.searchsorted(steps["from_ms"], edges_ms[0], "right")) - 1, 0)
        end = int(np.searchsorted(steps["from_ms"], edges_ms[-1]))
        from_ms, rates = steps["from_ms"][begin:end], steps["cost_rate"][begin:end]
        until_ms = np.append(from_ms[1:], edges_ms[-1])
        inside_ms = np.minimum(until_ms[:, None], edges_ms[1:]) - np.maximum(from_ms[:, None], edges_ms[:-1])
        costs: F64 = (rates[:, None] * np.maximum(inside_ms, 0)).sum(axis=0)
        lumps = self._lumps.rows[entry["lump_at"] : entry["lump_at"] + entry["lumps"]]
        mine = lumps[(lumps["minute"] >= first) & (lumps["minute"] < first + count)]
        costs[mine["minute"] - first] += mine["cost"]
        return costs

    def figures(self, times_ms: I64) -> WindowFigures:
        """All figures at the ticks.

        Raises:
            ValueError: The ticks do not ascend.
        """
        ticks = exact(times_ms, np.int64)
        curves = self._curves[: len(self._ids)]
        found = WindowFigures.empty(len(ticks), len(curves))
        found.ended_ms[:] = curves["ended_ms"]
        found.start_nano[:] = curves["start_cost"]
        found.deadline_ms[:] = curves["deadline_ms"]
        found.profile[:] = curves["profile"]
        bad = fill_figures(
            ticks,
            curves,
            self._steps.rows,
            self._lumps.rows,
            self._facts.rows,
            found.now_rate,
            found.expected_rate,
            found.cost_nano,
            found.expected_nano,
            found.elapsed_ms,
            found.paid_whole,
            found.ended,
            found.undecided,
            found.paid_now,
            found.since_paid_ms,
            found.traffic_nano,
            found.basis_nano,
            found.facts,
            found.steady_nano,
            found.repeated_nano,
            found.recurring_nano,
        )
        if bad >= 0:
            raise ValueError(f"tick {ticks[bad]} does not follow {ticks[bad - 1]}")
        return found


def _fill_steps(rows: Records, steps: Sequence[CurveStep]) -> None:
    """Write the steps and their prefix sums."""
    if len(steps) <= _FEW_STEPS:
        filled, sums = [], (0.0, 0.0, 0)
        for k, (from_ms, cost, expected, paid) in enumerate(steps):
            filled.append((from_ms, cost, sums[0], expected, sums[1], paid, sums[2]))
            if k + 1 < len(steps):
                ms = steps[k + 1][0] - from_ms
                sums = (sums[0] + cost * ms, sums[1] + expected * ms, sums[2] + paid * ms)
        rows[:] = filled
        return
    from_ms_of, cost_rate, expected_rate, is_paid = map(np.array, zip(*steps, strict=True))
    lengths_ms = np.diff(from_ms_of)
    rows["from_ms"] = from_ms_of
    rows["cost_rate"] = cost_rate
    rows["expected_rate"] = expected_rate
    rows["paid"] = is_paid
    for name, rate in (
        ("cost_sum", cost_rate),
        ("expected_sum", expected_rate),
        ("paid_sum_ms", is_paid),
    ):
        rows[name][0] = 0
        np.cumsum(rate[:-1] * lengths_ms, out=rows[name][1:])


def _fill_lumps(rows: Records, lumps: Sequence[tuple[int, float]]) -> None:
    """Write the lumps and their prefix sums."""
    if lumps:
        rows["minute"], rows["cost"] = zip(*lumps, strict=True)
        rows["cost_sum"][0] = 0
        np.cumsum(rows["cost"][:-1], out=rows["cost_sum"][1:])


class _Arena:
    """Ranges of rows, one per slot; the slot's record has the begin, length and capacity of its range."""

    __slots__ = ("_at", "_count", "_room", "_unused", "_used", "rows")

    def __init__(self, dtype: np.dtype[np.void], at: str, count: str, room: str) -> None:
        self.rows: Records = np.zeros(_SMALLEST, dtype)
        self._at, self._count, self._room = at, count, room
        self._used = 0
        self._unused = 0  # rows before `_used` that belong to no slot

    def place(self, curves: Records, slot: int, count: int) -> Records:
        """A range of `count` rows for the slot; its former content is lost."""
        entry = curves[slot]
        if count > entry[self._room]:
            grows = entry[self._room] > 0
            self.release(entry)
            room = count + count // 2 if grows else count
            self._reserve(curves, room)
            entry[self._at], entry[self._room] = self._used, room
            self._used += room
        entry[self._count] = count
        at = int(entry[self._at])
        return self.rows[at : at + count]

    def reserve(self, curves: Records, slot: int, room: int) -> None:
        """Grow the capacity of the slot's range; its rows stay."""
        entry = curves[slot]
        count, at = int(entry[self._count]), int(entry[self._at])
        kept = self.rows[at : at + count].copy()
        self.place(curves, slot, room)[:count] = kept
        entry[self._count] = count

    def release(self, entry: np.void) -> None:
        """Free the range of the slot."""
        self._unused += int(entry[self._room])
        entry[self._count] = entry[self._room] = 0

    def _reserve(self, curves: Records, room: int) -> None:
        if self._used + room <= len(self.rows):
            return
        if self._unused <= self._used // 2:
            larger = np.zeros(max(self._used + room, len(self.rows) * 3 // 2), self.rows.dtype)
            larger[: self._used] = self.rows[: self._used]
            self.rows = larger
            return
        counts = curves[self._count]
        ends = np.cumsum(counts)
        starts = ends - counts
        used = int(ends[-1])
        rows = np.zeros(max(used * 3 // 2 + room, _SMALLEST), self.rows.dtype)
        rows[:used] = self.rows[np.repeat(curves[self._at] - starts, counts) + np.arange(used)]
        curves[self._at], curves[self._room] = starts, counts
        self.rows, self._used, self._unused = rows, used, 0
