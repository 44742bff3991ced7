"""The GPU seconds that samples covered, and their sums per (job, attempt, node) and minute, for one shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.events import GpuEvent
from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.blob import all_slots, changed, pack, unpack
from streams.engine.coverage.blob_form import read
from streams.engine.coverage.flatten import flatten
from streams.engine.coverage.fold_result import FoldResult, UsagePiece
from streams.engine.coverage.names import NO_HOUR, Holder, HolderNames, Key, place_of
from streams.engine.coverage.packed_rows import PackedRows
from streams.engine.coverage.shapes import Shape, ShapeGroups
from streams.engine.coverage.unused import WORK_PERMILLE, UnusedGpus, jobs_with_rest, unused_of
from streams.engine.kernels.arrays import F64, I32, I64, U16
from streams.engine.kernels.coverage import fold_samples
from streams.engine.kernels.rings import free_rows, rows_at, rows_between
from streams.engine.kernels.store import (
    BEGINNING_MINUTE,
    BEGINNING_S,
    UNEXPORTED,
    UNEXPORTED_ROWS,
    UNEXPORTED_SLOTS,
    UNTOUCHED_S,
    CoverageStore,
    Samples,
)
from streams.engine.kernels.usage_sums import sum_blocks, sum_recent, sum_usage
from streams.engine.kernels.work_times import note_work_times


class RecentUsage(NamedTuple):
    """GPU-time of jobs in a range of minutes; each [job] int64."""

    sampled_ms: I64
    productive_ms: I64
    #: The minutes from this one on show that the job was productive enough; the end of the range: they do not.
    enough_since_minute: I64


class JobMinutes(NamedTuple):
    """GPU-time of a job in ms, [node, minute] int64 each, and the most memory that a GPU used."""

    sampled_ms: I64
    productive_ms: I64
    memory_mib: I64
    #: The productive time, and none where multiprocessors are sampled and hardly active in it: a kernel waits.
    at_work_ms: I64
    sm_sampled_ms: I64  # in which it is known how active multiprocessors were


class UsageRows(NamedTuple):
    """Columns of usage rows."""

    holder: I32
    minute: I32
    sampled_gpu_s: I64
    productive_gpu_ms: I64
    sm_gpu_ms: I64
    sm_sampled_gpu_s: I64
    tensor_gpu_ms: I64
    tensor_sampled_gpu_s: I64
    memory_used_mib_max: I64
    power_w_max: I64


#: Of busy time multiprocessors are active for more than this part.
_ACTIVE_PARTS: Final = 10
_NUMBER = attrgetter("number")  # of a holder
# Cells merged by one kernel call, about a tenth of a second.
_CELLS_PER_CALL = 50_000_000
# Below this, forgotten rows and slots are not worth a compaction.
_SPARE = 1024
# Up to this many minutes, a lookup of each is faster than a walk over all rows of a holder.
_FEW_MINUTES = 64


class Coverage:
    """Slots (job, attempt, node, GPU) with a ring of seconds; rows per holder (job, attempt, node) and minute.

    Numbers of holders and rows are valid until the next forget(), drop_counts(), export_dirty() or apply().
    """

    def __init__(self, late_horizon_s: int = 600, max_idle_gpus: int = 100_000) -> None:
        self._horizon_s = late_horizon_s
        self._arrays = CoverageArrays(late_horizon_s + 1)
        self._names = HolderNames(self._arrays, max_idle_gpus)
        self._forgotten: list[str] = []
        self._awaited: set[Key] = set()  # holders of which only changes were applied so far
        self._old = PackedRows(self._arrays, self._names, late_horizon_s)
        self._shape_groups = ShapeGroups(self._names)

    def fold(self, records: Sequence[GpuEvent]) -> FoldResult:
        """Merge the samples in their order."""
        samples = flatten(records, self._names, self._arrays)
        self.fold_columns(samples, 0, len(records))
        sizes = np.diff(samples.value_ptr)
        return FoldResult(
            late=int(samples.late.sum()),
            all_late=(sizes > 0) & (samples.late == sizes),
            touched=np.flatnonzero(samples.covers),
        )

    def fold_columns(self, samples: Samples, first: int, stop: int) -> None:
        """Merge the records [first, stop) of a batch; `late` and `covers` have the result."""
        if first == stop:
            return
        self._arrays.use_planes(len(samples.sm) > 0, len(samples.tensor) > 0)
        self._old.unpack_reached(samples, first, stop, self._horizon_s)
        begin_s, end_s = samples.begin_s[first:stop], samples.end_s[first:stop]
        minutes = np.maximum((end_s - 1) // 60 - begin_s // 60 + 1, 0)
        minutes *= self._arrays.group_holders[samples.group[first:stop]]
        values = np.diff(samples.value_ptr[first : stop + 1])
        most = (int(values.sum()) + 60 * len(values)) * int((end_s - begin_s).max() + 1)
        work = np.cumsum((values + 60) * (end_s - begin_s + 1)) if most > _CELLS_PER_CALL else None
        done, end = 0, stop - first
        while done < stop - first:
            if work is not None:
                before = int(work[done - 1]) if done else 0
                end = max(done + 1, int(np.searchsorted(work, before + _CELLS_PER_CALL, "right")))
            self._arrays.reserve_rows(int(minutes[done:end].sum()))
            fold_samples(first + done, first + end, self._horizon_s, self._arrays.store, samples)
            done = end
        note_work_times(first, stop, WORK_PERMILLE, self._arrays.store, samples, self._arrays.worked_s)

    def jobs_with_rest(self, until_s: int, wait_s: int) -> list[str]:
        """The jobs of which a GPU did nothing for so long before an instant."""
        return jobs_with_rest(self._arrays, self._names, until_s, wait_s)

    def unused_of(self, job_id: str, until_s: int, wait_s: int) -> UnusedGpus | None:
        """The GPUs of a job that did nothing for so long while others worked."""
        return unused_of(self._arrays, self._names.of_job(job_id), until_s, wait_s)

    def trim_groups(self) -> None:
        """Drop all groups if there are too many; not between groups_of_shapes() and its fold."""
        self._names.trim_groups()

    def groups_of_shapes(self, shapes: Sequence[Shape | None], index: I32) -> I32:
        """The group of each record ([n] int32) by the number of its shape."""
        return self._shape_groups.of(shapes, index)

    def group_sizes(self, group: I32) -> I64:
        """The number of GPUs in each group ([n] int64)."""
        return np.asarray(np.diff(self._arrays.store.group_ptr)[group])

    def drain_dirty(self) -> I64:
        """The rows ([n] int64) whose values changed since they were drained last."""
        return self._arrays.drain_dirty()

    def drain_urgent(self, job_ids: Iterable[str]) -> I64:
        """Those of the changed rows that were never drained, or are of these jobs; the others wait for a later call."""
        holders = [holder.number for job_id in job_ids for holder in self._names.of_job(job_id)]
        return self._arrays.drain_dirty(np.array(holders, np.int32))

    def usage(self, rows: I64) -> UsageRows:
        """The columns of these rows."""
        store, arrays = self._arrays.store, self._arrays
        part = store.rows[rows]
        zeros = np.zeros(len(rows), np.int64)
        return UsageRows(
            part["holder"],
            part["minute"],
            part["sampled_gpu_s"],
            part["productive_gpu_ms"],
            store.sm_rows["gpu_ms"][rows] if arrays.has_sm else zeros,
            store.sm_rows["sampled_gpu_s"][rows] if arrays.has_sm else zeros,
            store.tensor_rows["gpu_ms"][rows] if arrays.has_tensor else zeros,
            store.tensor_rows["sampled_gpu_s"][rows] if arrays.has_tensor else zeros,
            part["memory_used_mib_max"],
            part["power_w_max"],
        )

    def are_idle(self, rows: I64) -> NDArray[np.bool_]:
        """Whether each row ([n] bool) is of a GPU that no job has."""
        idle = np.array([holder.number for holder in self._names.of_job("")], np.int32)
        return np.isin(self._arrays.store.rows["holder"][rows], idle)

    def counts(self, rows: I64) -> U16:
        """The covering GPUs of the holder: [row, second of the minute] uint16.

        Raises:
            ValueError: drop_counts() was called for a row.
        """
        lines = self._arrays.store.rows["counts_at"][rows]
        if bool((lines < 0).any()):
            raise ValueError("the counts of a row were dropped")
        found: U16 = self._arrays.store.counts[lines]
        return found

    def drop_counts(self, job_id: str, attempt: int) -> None:
        """Drop the second counts of an attempt that can no longer be metered (two thirds of a row's memory)."""
        self._names.drop_counts(job_id, attempt)
        for holder in self._names.of_attempt(job_id, attempt):
            self._arrays.free_counts += free_rows(holder.number, True, self._arrays.store)[1]
        self._names.compact_if_sparse(_SPARE)

    def holders_of(self, job_id: str, attempt: int) -> list[int]:
        """The holders of an attempt."""
        return [holder.number for holder in self._names.of_attempt(job_id, attempt)]

    def holder(self, number: int) -> Key:
        """(job_id, attempt, node) of a holder."""
        found = self._names.by_number(number)
        return found.job_id, found.attempt, found.node

    def rows_of(
        self, holders: Sequence[int], lo_minute: int | None = None, hi_minute: int | None = None
    ) -> I64:
        """The holders' rows of the minutes [lo, hi), sorted by holder as given, then minute ([n] int64)."""
        lo = BEGINNING_MINUTE if lo_minute is None else lo_minute
        hi = 2**31 if hi_minute is None else hi_minute
        if lo < min(hi, self._old.packed_to):
            self._old.unpack(dict.fromkeys(holders, range(lo, hi)))
        return self._rows_of(holders, lo, hi)

    def _rows_of(self, holders: Sequence[int], lo: int = BEGINNING_MINUTE, hi: int = 2**31) -> I64:
        """Rows that are not packed."""
        numbers = np.array(holders, np.int64)
        walk = rows_at if hi - lo <= _FEW_MINUTES else rows_between
        rows = np.empty(walk(numbers, lo, hi, self._arrays.store, np.empty(0, np.int64)), np.int64)
        walk(numbers, lo, hi, self._arrays.store, rows)
        place = {number: k for k, number in enumerate(holders)}
        part = self._arrays.store.rows[rows]
        order = np.array([place[number] for number in part["holder"].tolist()], np.int64)
        return rows[np.lexsort((part["minute"], order))]

    def minute_usage(self, holders: Sequence[int], lo: int, hi: int) -> list[tuple[int, tuple[int, ...]]]:
        """(minute, usage as in `add_usage`) of the holders' rows of the minutes [lo, hi)."""
        usage = self.usage(self.rows_of(holders, lo, hi))
        columns = (
            usage.minute,
            1000 * usage.sampled_gpu_s,
            usage.productive_gpu_ms,
            usage.tensor_gpu_ms,
            1000 * usage.tensor_sampled_gpu_s,
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [(minute, tuple(sums)) for minute, *sums in rows]

    def minute_rows(self, job_id: str, attempt: int, minute: int) -> I64:
        """The rows of an attempt in one minute, one per node."""
        return self.rows_of(self.holders_of(job_id, attempt), minute, minute + 1)

    def find_rows(self, holders: I64, minutes: I64) -> tuple[I64, I64]:
        """The row of each (holder, minute) ([n] int64; -1: none), and its sampled GPU-seconds ([n] int64)."""
        self._old.unpack_pairs(holders, minutes)
        return self._arrays.find_rows(holders, minutes)

    def unpack(self, holders: I64, minutes: I64) -> None:
        """Unpack all rows of these holders and minutes into `store`."""
        self._old.unpack_pairs(np.repeat(holders, len(minutes)), np.tile(minutes, len(holders)))

    def changed_hours(self, rows: I64) -> list[tuple[str, int, int]]:
        """(job_id, attempt, hour) of those of these rows that have a job, each once.

        No hour is repeated until `forget_owed_hours`, unless rows of a holder alternate between hours, as late samples
        make them; a repetition is harmless.
        """
        part = self._arrays.store.rows[rows]
        pairs = np.unique(part["holder"].astype(np.int64) << 32 | (part["minute"] // 60).astype(np.int64))
        holders = self._names.by_numbers((pairs >> 32).tolist())
        found: dict[tuple[str, int, int], None] = {}
        for holder, hour in zip(holders, (pairs & 0xFFFFFFFF).tolist(), strict=True):
            if holder.last_owed_hour != hour and holder.job_id:
                holder.last_owed_hour = hour
                found[holder.job_id, holder.attempt, hour] = None
        return list(found)

    def forget_owed_hours(self, job_id: str, attempt: int) -> None:
        """Record that all hours of the attempt are written."""
        for holder in self._names.of_attempt(job_id, attempt):
            holder.last_owed_hour = NO_HOUR

    def add_usage(self, pieces: Iterable[UsagePiece], sums: I64, first_column: int) -> None:
        """Add the usage of these pieces to `sums`, in place.

        In ms of GPU-time, from `first_column` on: sampled, productive, on tensor cores, sampled for tensor cores.
        """
        found: list[tuple[int, int, int, int]] = []
        owner: tuple[str, int] | None = None
        holders: list[Holder] = []
        for job_id, attempt, lo, hi, row in pieces:
            if owner != (job_id, attempt):
                owner = job_id, attempt
                holders = self._names.of_attempt(job_id, attempt)
            found.extend((holder.number, lo, hi, row) for holder in holders)
        if not found:
            return
        holder, lo, hi, row = np.array(found, np.int64).T.copy()
        self._old.unpack_ranges(holder, lo, hi)
        sum_usage(holder, lo, hi, row, first_column, self._arrays.store, sums)

    def sampled(self, job_ids: Iterable[str]) -> list[str]:
        """The jobs of which any GPU was ever sampled."""
        return [job_id for job_id in job_ids if self._names.of_job(job_id)]

    def drain_with_new_gpus(self) -> set[str]:
        """The jobs of which GPUs became known since the last call."""
        return self._names.drain_with_new_gpus()

    def recent_usage(self, job_ids: Sequence[str], lo: int, hi: int, productive_ratio: F64) -> RecentUsage:
        """The GPU-time of each job in the minutes [lo, hi).

        Of a job that reaches `productive_ratio` ([n]) whatever else was sampled of its GPUs, only a part is read, which
        reaches it, too.
        """
        sums = np.zeros((len(job_ids), 2), np.int64)
        since = np.full(len(job_ids), hi)
        of_jobs = self._names.of_jobs(job_ids)
        found = list(chain.from_iterable(of_jobs))
        if found:
            place = np.repeat(np.arange(len(of_jobs)), np.fromiter(map(len, of_jobs), np.int64, len(of_jobs)))
            holder = np.fromiter(map(_NUMBER, found), np.int64, len(found))
            self._old.unpack_ranges(holder, np.full(len(found), lo), np.full(len(found), hi))
            store = self._arrays.store
            gpus = np.bincount(place, store.holders["gpus"][holder], len(of_jobs))
            enough_ms = productive_ratio * gpus * ((hi - lo) * 60_000)
            sum_recent(holder, place, lo, hi, enough_ms, store, sums, since)
            since[sums[:, 1] < enough_ms] = hi
        return RecentUsage(sums[:, 0].copy(), sums[:, 1].copy(), since)

    def block_usage(self, job_ids: Sequence[str], until_minute: int, width: int, blocks: int) -> I64:
        """The GPU-time of each job in blocks of minutes back from one: [job, block, 2] int64, ms sampled and productive."""
        sums = np.zeros((len(job_ids), blocks, 2), np.int64)
        holders = [
            (holder.number, place) for place, of in enumerate(self._names.of_jobs(job_ids)) for holder in of
        ]
        if holders:
            numbers, places = np.array(holders, np.int64).T.copy()
            from_minute = np.full(len(numbers), until_minute - width * blocks)
            self._old.unpack_ranges(numbers, from_minute, np.full(len(numbers), until_minute))
            sum_blocks(numbers, places, until_minute, width, self._arrays.store, sums)
        return sums

    def job_minutes(self, job_id: str, lo: int, hi: int) -> JobMinutes:
        """The GPU-time of a job in the minutes [lo, hi), node by node."""
        usage = self.usage(self.rows_of([each.number for each in self._names.of_job(job_id)], lo, hi))
        nodes, node = np.unique(usage.holder, return_inverse=True)
        found = JobMinutes(*np.zeros((len(JobMinutes._fields), len(nodes), hi - lo), np.int64))
        place = node, usage.minute - lo  # of each row: a holder has one of a minute
        found.sampled_ms[place] = 1000 * usage.sampled_gpu_s
        found.productive_ms[place] = usage.productive_gpu_ms
        found.memory_mib[place] = usage.memory_used_mib_max
        waits = (usage.sm_sampled_gpu_s > 0) & (_ACTIVE_PARTS * usage.sm_gpu_ms <= usage.productive_gpu_ms)
        found.at_work_ms[place] = np.where(waits, 0, usage.productive_gpu_ms)
        found.sm_sampled_ms[place] = 1000 * usage.sm_sampled_gpu_s
        return found

    def forget(self, job_ids: Iterable[str]) -> None:
        """Free the slots and rows of jobs, changed rows included; numbers returned before become invalid."""
        for job_id in job_ids:
            gone = self._names.forget(job_id)
            if gone:
                self._forgotten.append(job_id)
            self._free(gone)
        self._names.compact_if_sparse(_SPARE)

    def evictable(self, before_minute: int) -> list[tuple[str, int]]:
        """The attempts (job_id, attempt) of which `evict` drops rows."""
        return self._old.evictable(before_minute)

    def _free(self, gone: Sequence[Holder]) -> None:
        store = self._arrays.store
        for holder in gone:
            rows, counts = free_rows(holder.number, False, store)
            self._arrays.free_rows += rows
            self._arrays.free_counts += counts
            self._arrays.free_slots += len(holder.gpus)
            store.slots["holder"][list(holder.gpus.values())] = -1
        self._old.forget(gone)

    def places_of(self, node: str, gpus: Iterable[str]) -> list[int]:
        """The holders of those GPUs of a node that were sampled without a job."""
        found = (self._names.find("", 0, place_of(node, gpu)) for gpu in gpus)
        return [holder.number for holder in found if holder is not None]

    def forget_idle(self, before_minute: int) -> int:
        """Forget GPUs without a job that were last sampled in earlier minutes; return how many.

        A caller must know that no sample can reach an earlier minute any more.
        """
        idle = self._names.of_job("")
        newest_s = self._arrays.store.slots["newest_s"][all_slots(idle)]
        gone = [idle[place] for place in np.flatnonzero(newest_s < before_minute * 60).tolist()]
        if gone:
            self._forgotten.append("")  # the next increment includes those that remain
            self._free(self._names.forget_idle(gone))
            self._names.compact_if_sparse(_SPARE)
        return len(gone)

    def evict(self, before_minute: int, *, idle: bool = False) -> int:
        """Drop old rows of earlier minutes, of attempts or of `idle` GPUs, which no job has; return how many.

        Rows with counts stay: a late price needs them.
        """
        return self._old.evict(before_minute, idle=idle)

    def export(self, job_ids: Iterable[str]) -> bytes:
        """Encode all of these jobs, for adopt(); changes nothing."""
        holders = [holder for job_id in job_ids for holder in self._names.of_job(job_id)]
        slots = all_slots(holders)
        rows = self._rows_of([holder.number for holder in holders])
        return pack(self._arrays, self._names, [], slots, np.full(len(slots), BEGINNING_S), rows)

    def export_dirty(self, whole: Iterable[Holder] = ()) -> bytes:
        """Encode what changed since the last export, for apply(): new and `whole` holders completely."""
        if "" in self._forgotten:
            whole = [*whole, *self._names.of_job("")]
        entire, slots, from_s, rows = changed(self._arrays, self._names, whole)
        every = np.concatenate([rows, self._rows_of([holder.number for holder in entire])])
        data = pack(self._arrays, self._names, self._forgotten, slots, from_s, every, entire)
        self._exported()
        self._old.pack()
        return data

    def jobs(self) -> list[str]:
        """The jobs that have holders."""
        return self._names.jobs()

    def holders(self, numbers: Sequence[int] | None = None) -> list[Holder]:
        """All holders, or those with these numbers; without those forgotten before an export_dirty()."""
        return self._names.all() if numbers is None else self._names.by_numbers(numbers)

    @property
    def store(self) -> CoverageStore:
        """The arrays for an immediate kernel call; packed rows are missing, see unpack()."""
        return self._arrays.store

    @property
    def row_count(self) -> int:
        """The number of rows that are not packed, those of forgotten jobs included."""
        return self._arrays.rows

    @property
    def packed_to(self) -> int:
        """The minute before which rows may be packed."""
        return self._old.packed_to

    @property
    def packed_bytes(self) -> int:
        """The size of the packed rows."""
        return self._old.size_bytes

    @property
    def holder_count(self) -> int:
        """The number of holders, forgotten ones included until compaction."""
        return self._arrays.holders

    @property
    def bytes_per_holder(self) -> int:
        """Estimate the size of a holder in an export."""
        ring: int = self._arrays.store.ring.shape[1] * 2 * (1 + self._arrays.has_sm + self._arrays.has_tensor)
        weight = self._arrays.slots * ring + self._arrays.rows * 64 + self._old.size_bytes
        return weight // max(self._arrays.holders, 1) + 64

    def _exported(self) -> None:
        store = self._arrays.store
        store.slots["touched_s"][store.unexported_slots[: store.used[UNEXPORTED_SLOTS]]] = UNTOUCHED_S
        store.rows["flags"][store.unexported[: store.used[UNEXPORTED_ROWS]]] &= ~UNEXPORTED
        store.used[[UNEXPORTED_SLOTS, UNEXPORTED_ROWS]] = 0
        self._forgotten = []

    def apply(self, data: bytes) -> None:
        """Apply a base, or an increment after those before it; nothing becomes dirty."""
        blob = read(data)
        self.forget(blob.forget)
        if self._awaited and blob.forget:
            gone = set(blob.forget)
            self._awaited = {key for key in self._awaited if key[0] not in gone}
        passed_over = unpack(blob, self._arrays, self._names, self._old, touch=False)
        if self._awaited:
            self._awaited -= {(part.job_id, part.attempt, part.node) for part in blob.holders if part.whole}
        self._awaited.update((part.job_id, part.attempt, part.node) for part in passed_over)
        self._forgotten = []
        self._old.pack()

    @property
    def is_complete(self) -> bool:
        """Whether every applied change is of a known holder: the chain began early enough."""
        return not self._awaited

    def adopt(self, data: bytes) -> None:
        """Load archived jobs; the next increment includes them, and nothing becomes dirty.

        Raises:
            ValueError: A job is in memory already.
        """
        blob = read(data)
        for part in blob.holders:
            if self._names.of_job(part.job_id):
                raise ValueError(f"job {part.job_id} is in memory already")
        unpack(blob, self._arrays, self._names, self._old, touch=True)
