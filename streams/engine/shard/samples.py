"""Reads and folds a batch of GPU samples as columns, with the same result as record by record.

It must give the result of the general path (`schemas.decode`, `fold.fold_samples`), record for record; records that the
parser does not handle take that path, in their order among the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.decode import decode
from schemas.durations import BEGINNING_MS
from schemas.events import Event, GpuEvent
from schemas.invalid import Invalid
from streams import fallbacks
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.shapes import Parsed, Shape, Shapes
from streams.engine.kernels.arrays import I32, I64
from streams.engine.kernels.spans import ABSENT, SPAN, sum_up
from streams.engine.kernels.store import DIRTY_ROWS, Samples
from streams.engine.raw_records import RawRecords
from streams.engine.settings import ShardSettings
from streams.engine.shard.fold import FoldOutcome
from streams.engine.shard.fold import fold_samples as fold_events
from streams.engine.shard.partitioning import PartitionCheck
from streams.engine.shard.pending_samples import MOST_WAITING, PendingSamples
from streams.engine.state.attempt import AttemptState, Winner, winning_fields
from streams.engine.state.job import JobBook, JobState
from streams.engine.state.sample_times import NO_SOURCE, SampleTimes, source_key
from streams.fallbacks import GPU_DECODED

_NOBODY: Final = -1
_NOWHERE: Final = -1
#: Approximate size of a minute of an attempt's GPUs on a node: its seconds, its newest sample, its rows of the tables.
_ROW_BYTES: Final = 500


class SampleBatch(NamedTuple):
    """The records of a batch from `next` on; `events`: those that the parser did not handle, by index."""

    records: RawRecords
    parsed: Parsed
    events: dict[int, Event | Invalid]

    def times_ms(self) -> I64:
        """`time_ms` ([n] int64); for a record that is no event, an instant before all others."""
        if not self.events:
            return self.parsed.time_ms
        times_ms = np.where(self.parsed.shape >= 0, self.parsed.time_ms, BEGINNING_MS)
        for index, event in self.events.items():
            if not isinstance(event, Invalid):
                times_ms[index] = event.time_ms
        return times_ms

    def invalid(self) -> Iterator[tuple[int, Invalid]]:
        """Yield the records that are no events, by index."""
        return ((index, event) for index, event in self.events.items() if isinstance(event, Invalid))


class SampledAttempt(NamedTuple):
    """The (job, attempt) of accepted samples."""

    job_id: str
    attempt: int


class FoldedSamples(NamedTuple):
    """The result of a batch of samples.

    Indices of the records of which all GPUs were late, the number of single GPUs that were late, and the attempts whose
    jobs received samples one by one. `unattributed`: records of GPUs that no job holds.
    """

    too_late: list[int]
    late: int
    unattributed: int
    sampled: set[SampledAttempt]


class PublishedSamples(NamedTuple):
    """What samples were applied: the attempts that may change by them, and jobs of which no more than times changed.

    `alive`: of the latter those that were not returned since the last checkpoint.
    """

    sampled: Iterable[SampledAttempt]
    alive: Sequence[str]


class SampleColumns:
    """Reads and folds the GPU records of one shard; call `publish` before anything reads its jobs.

    After the first samples of an open attempt with a start event, others change only the times of its job, which are
    kept as columns: such an attempt is steady.
    """

    def __init__(self, place: PartitionCheck, shapes: Shapes | None = None) -> None:
        self._place = place
        self._own_shapes = Shapes(is_ours=place.is_of) if shapes is None else shapes
        self._shapes: Sequence[Shape | None] = ()  # those of the last batch
        self._owners: list[SampledAttempt] = []
        self._number: dict[SampledAttempt, int] = {}  # owner -> number
        self._owner = np.zeros(0, np.int32)  # by shape: number of its owner
        self._idle = np.zeros(0, np.bool_)  # by shape: no job has the GPUs
        self._source = np.zeros(0, np.int64)  # by shape: the key of its source
        self._source_names: dict[int, str] = {}  # by key, of the shapes that jobs have
        self._spans = np.zeros(0, SPAN)  # by owner
        self._fields: dict[int, tuple[str, ...]] = {}  # by shape, in the form that a Winner has
        self._pending = PendingSamples()
        self.times = SampleTimes()
        self._job_id = np.zeros(0, np.object_)  # by owner
        self._place_of = np.zeros(
            0, np.int32
        )  # by owner: the place of a steady attempt's job in the times, or _NOWHERE
        self._reported = np.zeros(
            0, np.bool_
        )  # by owner: a steady one returned by `publish` since the last checkpoint

    def must_publish_before(self, columns: SampleBatch) -> bool:
        """Whether `publish` must be called before the `fold` of these: too much waits, or their numbers of shapes are of another table."""
        return self.must_publish or columns.parsed.shapes is not self._shapes

    @property
    def must_publish(self) -> bool:
        """Whether `publish` must be called, as too much waits."""
        return len(self._pending) > MOST_WAITING

    def read(self, records: RawRecords, settings: ShardSettings) -> SampleBatch:
        """Parse all values that were not parsed ahead, ordinary ones as columns."""
        allowed_ms = settings.newest_allowed_each_ms(records.log_ms)
        parsed = records.ahead
        if isinstance(parsed, Parsed):
            parsed.shape[parsed.time_ms > allowed_ms] = -1  # a time of another record where there is no shape
        else:
            values = records.data, records.value_at, records.value_size
            parsed = self._own_shapes.parse(*values, allowed_ms)
        parsed.shape[records.headers_at >= 0] = -1  # CloudEvents attributes may be in the headers
        events: dict[int, Event | Invalid] = {}
        for index in np.flatnonzero(parsed.shape < 0).tolist():
            record = records[index]
            event = decode("gpu", record.value, record.headers, int(allowed_ms[index]), settings.canary)
            events[index] = self._place.judged(event)
        fallbacks.counts[GPU_DECODED] += sum(isinstance(event, GpuEvent) for event in events.values())
        return SampleBatch(records, parsed, events)

    def job_ids(self, columns: SampleBatch) -> set[str]:
        """The jobs that the batch refers to, '' for idle GPUs among them."""
        numbers, shapes = np.unique(columns.parsed.shape), columns.parsed.shapes
        found = {shape.job_id for number in numbers[numbers >= 0].tolist() if (shape := shapes[number])}
        return found | {getattr(event, "job_id", "") for event in columns.events.values()}

    def fold(
        self, columns: SampleBatch, accepted: NDArray[np.bool_], jobs: JobBook, coverage: Coverage
    ) -> FoldedSamples:
        """Merge the accepted records ([n], events only), in their order."""
        parsed = columns.parsed
        direct = accepted & (parsed.shape >= 0)
        late = unattributed = 0
        too_late: list[int] = []
        sampled: set[SampledAttempt] = set()
        self._resolve_owners(parsed.shapes)
        coverage.trim_groups()  # only between batches: a fold holds group numbers
        samples = self._samples(parsed, direct, coverage)
        done = 0
        for first, stop in _runs([index for index in columns.events if accepted[index]]):
            coverage.fold_columns(samples, done, first)
            events = [columns.events[index] for index in range(first, stop)]
            gpu_events = [event for event in events if isinstance(event, GpuEvent)]
            outcomes, single = fold_events(jobs, coverage, gpu_events)
            late += single
            for index, event, outcome in zip(range(first, stop), gpu_events, outcomes, strict=True):
                if outcome is FoldOutcome.TOO_LATE:
                    too_late.append(index)
                elif outcome is FoldOutcome.UNATTRIBUTED:
                    unattributed += 1
                else:
                    sampled.add(SampledAttempt(event.job_id, event.attempt))
            done = stop
        coverage.fold_columns(samples, done, len(accepted))
        late_gpus = int(samples.late.sum())
        applied = direct
        if late_gpus:
            sizes = coverage.group_sizes(samples.group)
            all_late = (sizes > 0) & (samples.late == sizes)
            too_late.extend(np.flatnonzero(all_late).tolist())
            applied = direct & ~all_late
        if self._idle.any():
            idle = np.zeros(len(direct), np.bool_)
            idle[direct] = self._idle[parsed.shape[direct]]
            unattributed += int((applied & idle).sum())
            applied = applied & ~idle
        self._add_pending(columns, applied)
        return FoldedSamples(sorted(too_late), late_gpus + late, unattributed, sampled)

    def _samples(self, parsed: Parsed, direct: NDArray[np.bool_], coverage: Coverage) -> Samples:
        """The kernel's view; records that are not merged this way have group 0, which has no slot."""
        if direct.all():
            group = coverage.groups_of_shapes(self._shapes, parsed.shape)
        else:
            group = np.zeros(len(direct), np.int32)
            group[direct] = coverage.groups_of_shapes(self._shapes, parsed.shape[direct])
        return Samples(
            group=group,
            begin_s=(parsed.time_ms - parsed.interval_ms) // 1000,
            end_s=parsed.time_ms // 1000,
            value_ptr=parsed.value_ptr,
            util=parsed.util,
            sm=parsed.sm,
            tensor=parsed.tensor,
            memory=parsed.memory,
            power=parsed.power,
            late=np.zeros(len(direct), np.int32),
            covers=np.zeros(len(direct), np.uint8),
        )

    def _add_pending(self, columns: SampleBatch, applied: NDArray[np.bool_]) -> None:
        """Add what the records contain of their owners to the pending samples."""
        parsed, size = columns.parsed, len(applied)
        seen, newest = np.empty(size, np.int32), np.empty(size, np.int64)
        first_ms, last_ms = np.empty((2, size), np.int64)
        data = columns.records.data
        owners, found = sum_up(
            applied.view(np.uint8), parsed.shape, self._owner, parsed.time_ms, parsed.interval_ms, parsed.id_at,
            parsed.id_size, data, self._spans, seen, first_ms, last_ms, newest,
        )  # fmt: skip
        sources = self._newest_sources(parsed, applied, seen[:owners], last_ms[:owners])
        self._pending.seen(seen[:owners], first_ms[:owners], last_ms[:owners], sources)
        newest = newest[:found]
        newest = newest[self._place_of[self._owner[parsed.shape[newest]]] == _NOWHERE]
        shape = parsed.shape[newest]
        self._pending.newest(
            self._owner[shape], shape, parsed.time_ms[newest], parsed.interval_ms[newest], parsed.id_at[newest],
            parsed.id_size[newest], data,
        )  # fmt: skip

    def _newest_sources(self, parsed: Parsed, applied: NDArray[np.bool_], seen: I32, last_ms: I64) -> I64:
        """The source (key) of the newest applied record of each of these owners ([n]); of several of one instant the largest."""
        if len(self._source_names) == 1:
            return np.full(len(seen), next(iter(self._source_names)), np.int64)
        newest_ms = np.full(len(self._owners), BEGINNING_MS)
        newest_ms[seen] = last_ms
        sources = np.full(len(self._owners), NO_SOURCE)
        shape = parsed.shape[applied]
        owner = self._owner[shape]
        is_newest = parsed.time_ms[applied] == newest_ms[owner]
        np.maximum.at(sources, owner[is_newest], self._source[shape[is_newest]])
        found: I64 = sources[seen]
        return found

    def publish(self, jobs: JobBook, open_jobs: Collection[str]) -> PublishedSamples:
        """Apply to the jobs what was sampled of them since the last call, with the price fields."""
        if not len(self._pending):
            return PublishedSamples((), ())
        owners, first_ms, last_ms, sources = self._pending.drain_seen()
        alive = self._report(owners, open_jobs)
        steady = self._place_of[owners] != _NOWHERE
        self.times.merge(self._place_of[owners[steady]], first_ms[steady], last_ms[steady], sources[steady])
        others = ~steady
        seen = zip(*(each[others].tolist() for each in (owners, first_ms, last_ms, sources)), strict=True)
        metered: dict[int, AttemptState] = {}
        sampled: list[SampledAttempt] = []
        for number, since_ms, until_ms, source in seen:
            owner = self._owners[number]
            sampled.append(owner)
            job = jobs.of(owner.job_id)
            attempt = job.attempt_with_usage(owner.attempt)
            attempt.sampled = True
            job.record_samples(since_ms, until_ms, self._source_names[source])
            if not attempt.has_start:
                metered[number] = attempt
            elif owner.job_id in open_jobs:
                self._place_of[number] = job.place_in(self.times)
        for number, index, time_ms, interval_ms, text in self._pending.drain_newest(metered.keys()):
            shape = self._shapes[index]
            if shape is None:
                continue
            fields = self._fields.get(index)
            if fields is None:
                fields = self._fields[index] = winning_fields(shape.fields)
            metered[number].add_winner(Winner(time_ms, shape.source, shape.node, text, fields), interval_ms)
        return PublishedSamples(sampled, alive)

    def _report(self, owners: I64, open_jobs: Collection[str]) -> Sequence[str]:
        """The jobs of steady owners not reported since the last checkpoint; those no longer open are steady no more.

        Jobs end in checkpoints only, so that one look at each suffices.
        """
        unreported = owners[(self._place_of[owners] != _NOWHERE) & ~self._reported[owners]]
        alive: list[str] = self._job_id[unreported].tolist()
        is_open = np.fromiter((job_id in open_jobs for job_id in alive), np.bool_, len(alive))
        self._place_of[unreported[~is_open]] = _NOWHERE
        self._reported[unreported[is_open]] = True
        return alive if is_open.all() else self._job_id[unreported[is_open]].tolist()

    def checkpointed(self) -> None:
        """Report all jobs again: a checkpoint has what was reported."""
        self._reported[:] = False

    def forget(self, job: JobState) -> None:
        """The job leaves memory."""
        job.drop_place()
        for attempt in job.attempts:
            number = self._number.get(SampledAttempt(job.id, attempt))
            if number is not None:
                self._place_of[number] = _NOWHERE

    def _resolve_owners(self, shapes: Sequence[Shape | None]) -> None:
        """Resolve the attempt of each shape; many exporters, perhaps one per GPU, may report the same attempt.

        Numbers are assigned anew when the table of shapes is another one.
        """
        if shapes is not self._shapes:
            self._shapes = shapes
            self._fields.clear()
            self._owners.clear()
            self._number.clear()
            self._owner, self._idle = np.zeros(0, np.int32), np.zeros(0, np.bool_)
            self._source, self._source_names = np.zeros(0, np.int64), {}
            self._job_id, self._place_of, self._reported = (
                self._job_id[:0],
                self._place_of[:0],
                self._reported[:0],
            )
        known, count = len(self._owner), len(shapes)
        if known == count:
            return
        numbers, idle = np.full(count - known, _NOBODY, np.int32), np.zeros(count - known, np.bool_)
        keys, sources = np.full(count - known, NO_SOURCE), len(self._source_names)
        for index in range(known, count):
            shape = shapes[index]
            if shape is None:  # refused: no record has it
                continue
            if not shape.job_id:
                idle[index - known] = True
                continue
            key = keys[index - known] = source_key(shape.source)
            self._source_names[key] = shape.source
            owner = SampledAttempt(shape.job_id, shape.attempt)
            number = numbers[index - known] = self._number.setdefault(owner, len(self._owners))
            if number == len(self._owners):
                self._owners.append(owner)
        self._owner, self._idle = np.concatenate((self._owner, numbers)), np.concatenate((self._idle, idle))
        self._source = np.concatenate((self._source, keys))
        if len(self._source_names) > sources:
            self.times.know(self._source_names)
        self._pending.resize(len(self._owners))
        more = self._owners[len(self._job_id) :]
        self._job_id = np.append(self._job_id, np.array([owner.job_id for owner in more], np.object_))
        self._place_of = np.append(self._place_of, np.full(len(more), _NOWHERE, np.int32))
        self._reported = np.append(self._reported, np.zeros(len(more), np.bool_))
        if len(self._spans) < len(self._owners):
            self._spans = np.zeros(max(len(self._owners), 2 * len(self._spans)), SPAN)
            self._spans["newest"] = ABSENT


def sampled_bytes(coverage: Coverage) -> int:
    """Estimate the size in memory of samples not stored yet; repeated samples of the same minutes add nothing."""
    return int(coverage.store.used[DIRTY_ROWS]) * _ROW_BYTES


def _runs(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield [first, stop) of consecutive indices."""
    first = stop = -1
    for index in indices:
        if index != stop:
            if first >= 0:
                yield first, stop
            first = index
        stop = index + 1
    if first >= 0:
        yield first, stop
