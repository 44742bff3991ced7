"""Compares two price books and finds the jobs and nodes whose rows must be derived again.

It compares the periods in which revisions are effective, and changes nothing itself.
"""

from __future__ import annotations

from typing import ClassVar, Final

from schemas.durations import MINUTE_MS
from schemas.wire_types import MAX_INTERVAL_MS
from streams.engine.pricing.book import PriceBook, clipped, steps_of_one
from streams.engine.pricing.context import (
    Context,
    Payer,
    labels_of,
    time_parts,
    traffic_context,
    usage_context,
)
from streams.engine.pricing.history import Form, labels_named
from streams.engine.pricing.kinds import KIND_OF_UNIT, TIME_COMPONENTS, Kind
from streams.engine.pricing.recent import Recent
from streams.engine.repricing.price_index import Ask, PriceIndex
from streams.engine.state.attempt import AttemptState
from streams.engine.state.job import JobState
from streams.engine.state.node import NodeState
from streams.engine.state.said import JobDimensions
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.growing import Timelines
from streams.engine.timeline.intervals import Span, union

#: 16 MiB of books and their differences.
_WEIGHT_MAX: Final = 2_000_000


class PriceChanges:
    """The difference between two books; each context is compared once."""

    _recent: ClassVar[Recent[tuple[PriceBook, PriceBook], PriceChanges]] = Recent(_WEIGHT_MAX)

    @classmethod
    def between(cls, old: PriceBook, new: PriceBook) -> PriceChanges:
        """The difference, the same object for all shards: they come to a revision one after another."""
        return cls._recent.get((old, new), lambda: cls(old, new), lambda _made: old.weight + new.weight)

    def __init__(self, old: PriceBook, new: PriceBook) -> None:
        self.old = old
        self.new = new
        self._changed: dict[str, list[Span]] = {}  # by SKU
        self._forms: set[Form] = set()
        for sku, spans, forms in new.differing(old):
            self._changed[sku] = spans
            self._forms |= forms
        spans = [span for of_sku in self._changed.values() for span in of_sku]
        #: [from, until) that contains every time at which a price may differ; None: nothing changed.
        self.span: Span | None = (
            (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
        )
        self._priced = {(component, kind) for component, kind, _ in self._forms}
        self._kinds = [kind for kind in TIME_COMPONENTS if any(kind == priced for _, priced in self._priced)]
        self._labels = labels_named(self._forms)
        # By price fields and payer, which jobs share.
        self._of_time: dict[tuple[tuple[str | None, ...], Payer], tuple[Span, ...]] = {}
        self._of: dict[tuple[Context, str, Kind], tuple[Span, ...]] = {}

    @property
    def events_span(self) -> Span | None:
        """[from, until) that contains every event about these times: events describe time before their own."""
        span = self.span
        return None if span is None else (span[0], span[1] + MAX_INTERVAL_MS)

    def asking(self, priced: PriceIndex) -> set[str]:
        """The names that look up any changed SKU: all others have the same prices."""
        return priced.asking(self._forms) if self._forms else set()

    def touches_job(self, job: JobState) -> bool:
        """Whether any price that the job's rows were derived from has changed."""
        booked = job.booked_dimensions
        payer = Payer(booked.team, booked.project, self._labels_of(booked))
        return bool(self._changed) and self._touched(job, payer) is not None

    def touched(self, job: JobState, payer: Payer) -> list[int] | None:
        """The attempts whose billed time has a changed price; None: no usage of the job has one.

        `payer`: as the prices were looked up, without the labels that only the newer book names.
        """
        labels = {*payer.labels, *self._labels_of(job.dimensions())} & self._labels
        return self._touched(job, payer._replace(labels=tuple(sorted(labels))))

    def _labels_of(self, dimensions: JobDimensions) -> tuple[str, ...]:
        """The job's labels of which a price has changed."""
        if not self._labels:
            return ()
        return tuple(each for each in labels_of(dimensions.labels) if each in self._labels)

    def _touched(self, job: JobState, payer: Payer) -> list[int] | None:
        if not self._changed:
            return None
        lines, span = job.timelines(), self.span
        if span is None:
            return None
        # Of a long history, the attempts that ended before a price changes are not read.
        recent = lines.ending_after(span[0]) if isinstance(lines, Timelines) else lines
        found = [number for number in recent if self._touches_time(lines[number], payer)]
        if found or any(self._touches_rows(each, payer) for each in job.with_usage.values()):
            return found
        return None

    def _touches_time(self, timeline: Timeline, payer: Payer) -> bool:
        """Whether any price of an attempt's billed time has changed."""
        segments = timeline.segments
        span = self.span
        if not segments or span is None or segments[-1].end_ms <= span[0] or span[1] <= segments[0].start_ms:
            return False
        for segment in segments:
            spans = self._time_spans(segment.values.fields, payer)
            if spans and _overlap(spans, segment.start_ms, segment.end_ms):
                return True
        return False

    def _touches_rows(self, attempt: AttemptState, payer: Payer) -> bool:
        """Whether any price of an attempt's samples or amounts has changed."""
        if attempt.winners and self._touches_samples(attempt, payer):
            return True
        return bool(len(attempt.traffic)) and self._touches_amounts(attempt, payer)

    def touches_node(self, node: NodeState) -> bool:
        """Whether any price of the node's time has changed."""
        return any(
            _overlap(
                self._spans(usage_context(segment.fields, None, None), component, kind),
                segment.start_ms,
                segment.end_ms,
            )
            for segment in node.segments()
            for component, kind in segment.priced_by
        )

    def _touches_samples(self, attempt: AttemptState, payer: Payer) -> bool:
        """Whether the price of a metered minute has changed; only minutes that may be affected are examined."""
        winners = attempt.winners
        for winning in attempt.fields_seen.values():
            spans = self._time_spans(winning.price_fields, payer)
            for from_ms, until_ms in spans:
                first, last = from_ms // MINUTE_MS, -(-until_ms // MINUTE_MS)
                if last - first < len(winners):
                    minutes = (winners[minute] for minute in range(first, last) if minute in winners)
                else:
                    minutes = (winner for minute, winner in winners.items() if first <= minute < last)
                if any(winner.fields == winning.fields for winner in minutes):
                    return True
        return False

    def _touches_amounts(self, attempt: AttemptState, payer: Payer) -> bool:
        traffic = attempt.traffic
        return any(
            _overlap(
                self._spans(
                    traffic_context(dict(match), payer.team, payer.project), topic, Kind(KIND_OF_UNIT[unit])
                ),
                traffic.first_ms,
                traffic.last_ms + 1,
            )
            for topic, unit, match in traffic.bases
        )

    def _time_spans(self, values: tuple[str | None, ...], payer: Payer) -> tuple[Span, ...]:
        """Return when time with these price fields has another price."""
        key = (values, payer)
        known = self._of_time.get(key)
        if known is None:
            context = usage_context(values, payer.team, payer.project)
            known = self._of_time[key] = tuple(
                span
                for kind in self._kinds
                for component, asked in time_parts(kind, context, payer.labels)
                if (component, kind) in self._priced
                for span in self._spans(asked, component, kind)
            )
        return known

    def _spans(self, context: Context, component: str, kind: Kind) -> tuple[Span, ...]:
        """Return when this price differs."""
        key = (context, component, kind)
        known = self._of.get(key)
        if known is None:
            known = self._of[key] = () if self._is_of_others(key) else self._spans_of(key)
        return known

    def _is_of_others(self, key: tuple[Context, str, Kind]) -> bool:
        """Whether one SKU determines this price at all changed times, and is none of those that changed."""
        if self.span is None:
            return True
        before = self.old.winner(*key, *self.span)
        return before is not None and before is self.new.winner(*key, *self.span)

    def _spans_of(self, key: tuple[Context, str, Kind]) -> tuple[Span, ...]:
        skus = {*self.new.candidates(*key), *self.old.candidates(*key)} & self._changed.keys()
        spans = union(span for sku in skus for span in self._changed[sku])
        return tuple(span for span in spans if self._differs(key, *span))

    def _differs(self, key: tuple[Context, str, Kind], from_ms: int, until_ms: int) -> bool:
        before = self.old.winner(*key, from_ms, until_ms)
        after = None if before is None else self.new.winner(*key, from_ms, until_ms)
        if before is not None and after is not None:
            # It is one object if none of the changed SKUs wins.
            return before is not after and (
                steps_of_one(before, from_ms, until_ms) != steps_of_one(after, from_ms, until_ms)
            )
        old, new = (
            clipped(book.steps(*key, from_ms, until_ms), from_ms, until_ms) for book in (self.old, self.new)
        )
        return old != new


def job_lookups(job: JobState, team: str | None, project: str | None) -> frozenset[Ask]:
    """The price lookups of a job, for this payer."""
    asks: set[Ask] = set()
    for fields in job.fields_held():
        asks.add((False, usage_context(fields, team, project)))
    for attempt in job.with_usage.values():
        asks.update(
            (False, usage_context(winner.price_fields, team, project))
            for winner in attempt.fields_seen.values()
        )
        asks.update(
            (True, traffic_context(dict(match), team, project)) for _, _, match in attempt.traffic.bases
        )
    return frozenset(asks)


def node_lookups(node: NodeState) -> frozenset[Ask]:
    """The price lookups of a node, which match no team."""
    return frozenset((False, usage_context(segment.fields, None, None)) for segment in node.segments())


def _overlap(spans: tuple[Span, ...], start_ms: int, end_ms: int) -> bool:
    return any(from_ms < end_ms and start_ms < until_ms for from_ms, until_ms in spans)


def index_job(index: PriceIndex, job: JobState) -> None:
    """Index the price lookups of a job whose curve or rows are built: `reprice` finds only indexed jobs."""
    if job.may_price_lookups_differ():
        dimensions = job.dimensions()
        index.set_lookups(job.id, job_lookups(job, dimensions.team, dimensions.project))
