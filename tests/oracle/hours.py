"""Hour rows of one job: its ledger rows summed by attempt and hour, with the time in which the hour was paid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tests.oracle.held import Held
from tests.oracle.intake import JobLog, Sample
from tests.oracle.model import (
    COMPONENTS,
    ENDS,
    HOUR_MS,
    LARGEST_COST_NANO,
    MINUTE_MS,
    PAID_AT_MOST_MS,
    STARTS,
    Fields,
    HourKey,
    HourRow,
    LedgerKey,
    LedgerRow,
    UsageRow,
)
from tests.oracle.rows import Ledger, usage
from tests.oracle.timeline import Attempt, Interval, Segment, overlaps, union


class HourSums:
    """What one hour of an attempt adds up to."""

    def __init__(self) -> None:
        self.wall_clock_ms = self.starting_ms = self.queued_ms = 0
        self.sampled_gpu_ms = self.productive_gpu_ms = self.tensor_gpu_ms = self.tensor_sampled_gpu_ms = 0
        self.gpu_milli_ms = self.lost_gpu_milli_ms = self.unpriced_gpu_milli_ms = 0
        self.cost_nano = dict.fromkeys(COMPONENTS, 0)
        self.lost_cost_nano = self.starting_lost_cost_nano = 0
        self.wall_clock_by_minute: dict[int, int] = {}

    def add_time(self, start_ms: int, end_ms: int) -> None:
        """Add time that was paid."""
        self.wall_clock_ms += end_ms - start_ms
        for minute in range(start_ms // MINUTE_MS, -(-end_ms // MINUTE_MS)):
            inside_ms = min(end_ms, (minute + 1) * MINUTE_MS) - max(start_ms, minute * MINUTE_MS)
            self.wall_clock_by_minute[minute] = self.wall_clock_by_minute.get(minute, 0) + inside_ms

    def add(self, key: LedgerKey, row: LedgerRow) -> None:
        """Add a row of one of its minutes."""
        self.cost_nano[key.component] += row.cost_nano
        self.lost_cost_nano += row.lost_cost_nano
        self.starting_lost_cost_nano += row.lost_cost_nano if key.phase == "starting" else 0
        if key.component == "gpu":
            self.gpu_milli_ms += row.quantity
            self.lost_gpu_milli_ms += row.lost_quantity
            self.unpriced_gpu_milli_ms += row.quantity if not key.sku else 0

    def add_usage(self, row: UsageRow) -> None:
        """Add the usage of one of its minutes."""
        self.sampled_gpu_ms += 1000 * row.sampled_gpu_s
        self.productive_gpu_ms += row.productive_gpu_ms
        self.tensor_gpu_ms += row.tensor_gpu_ms
        self.tensor_sampled_gpu_ms += 1000 * row.tensor_sampled_gpu_s

    def row(self) -> HourRow:
        """The row; "a sum beyond Decimal(18, 9) is capped"."""
        return HourRow(
            self.wall_clock_ms,
            self.queued_ms,
            self.starting_ms,
            self.gpu_milli_ms,
            self.lost_gpu_milli_ms,
            self.unpriced_gpu_milli_ms,
            self.sampled_gpu_ms,
            self.productive_gpu_ms,
            self.tensor_gpu_ms,
            self.tensor_sampled_gpu_ms,
            tuple(min(cost, LARGEST_COST_NANO) for cost in self.cost_nano.values()),
            min(self.lost_cost_nano, LARGEST_COST_NANO),
            min(self.starting_lost_cost_nano, LARGEST_COST_NANO),
            tuple(sorted(self.wall_clock_by_minute.items())),
        )


def hour_rows(
    job_id: str,
    log: JobLog,
    attempts: list[Attempt],
    held: Mapping[int, Held],
    ledger: Ledger,
    as_of_ms: int,
) -> dict[HourKey, HourRow]:
    """The hours of a job; an hour in which nothing was paid or waited for has no row."""
    sums: dict[HourKey, HourSums] = {}

    def at(attempt: int, hour: int, fields: Fields) -> HourSums:
        return sums.setdefault(HourKey(job_id, attempt, hour, fields), HourSums())

    for key, fields, row in ledger.parts():
        at(key.attempt, key.minute // 60, fields).add(key, row)
    covered: list[Interval] = []  # the wall-clock time of the lower attempts
    for attempt in attempts:
        number, fields_at = attempt.number, held[attempt.number]
        segments = attempt.segments(as_of_ms)
        for segment in segments:
            own = _without((segment.start_ms, segment.end_ms), covered)
            for hour, fields, start_ms, end_ms in _by_hour(own, fields_at):
                at(number, hour, fields).add_time(start_ms, end_ms)
                at(number, hour, fields).starting_ms += (
                    end_ms - start_ms if segment.phase == "starting" else 0
                )
        covered = union([*covered, *_spans(segments)])
        for hour, fields, start_ms, end_ms in _by_hour(_waits(attempt), fields_at):
            at(number, hour, fields).queued_ms += end_ms - start_ms
        samples = [s for s in log.samples if s.attempt == number]
        for minute, usage_row in usage(samples).items():
            # "a minute of samples has the fields of its newest sample, else those that held when it ended"
            fields = fields_at.at((minute + 1) * MINUTE_MS - 1)[1]
            at(number, minute // 60, fields).add_usage(usage_row)
        if attempt.metered:
            for second in _seconds(samples):
                paid = at(number, second // 3600, fields_at.at(second * 1000)[1])
                paid.add_time(second * 1000, (second + 1) * 1000)
    rows = {key: found.row() for key, found in sums.items()}
    return {key: row for key, row in rows.items() if any(row[:10]) or any(row.cost_nano)}


def _waits(attempt: Attempt) -> list[Interval]:
    """From `queued` to whatever ends the wait; a wait that goes on does not count yet."""
    waits: list[Interval] = []
    since_ms: int | None = None
    for event in attempt.effective:
        kind = event["type"]
        if kind == "queued" and since_ms is None:
            since_ms = event["time_ms"]
        elif since_ms is not None and (kind in STARTS or kind in ENDS or kind == "suspended"):
            waits.append((since_ms, event["time_ms"]))
            since_ms = None
    if since_ms is not None and attempt.own_end is None and attempt.superseded_ms is not None:
        waits.append((since_ms, attempt.superseded_ms))
    return [(start_ms, min(end_ms, start_ms + PAID_AT_MOST_MS)) for start_ms, end_ms in waits]


def _seconds(samples: Iterable[Sample]) -> set[int]:
    """The seconds in which any GPU was sampled."""
    return {second for sample in samples if sample.permille for second in range(sample.first_s, sample.end_s)}


def _spans(segments: Iterable[Segment]) -> list[Interval]:
    return [(segment.start_ms, segment.end_ms) for segment in segments]


def _without(span: Interval, covered: list[Interval]) -> list[Interval]:
    left: list[Interval] = []
    start_ms, end_ms = span
    for a_ms, b_ms in overlaps(covered, start_ms, end_ms):
        left.append((start_ms, a_ms))
        start_ms = b_ms
    return [*left, (start_ms, end_ms)]


def _by_hour(intervals: Iterable[Interval], held: Held) -> Iterator[tuple[int, Fields, int, int]]:
    """Each hour of the intervals, the price fields in it, and the time of both."""
    for start_ms, end_ms in intervals:
        for hour in range(start_ms // HOUR_MS, -(-end_ms // HOUR_MS)):
            inside = max(start_ms, hour * HOUR_MS), min(end_ms, (hour + 1) * HOUR_MS)
            for from_ms, until_ms in held.cut(*inside):
                yield hour, held.at(from_ms, of_samples=False)[1], from_ms, until_ms
