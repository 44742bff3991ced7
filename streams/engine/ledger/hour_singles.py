"""Sums the rows of traffic and samples of an attempt by hour and price fields.

The sums of an hour are kept while its price fields stay; where they change within a minute, its traffic is cut there, and
a change of it makes the hour be summed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from schemas.durations import MINUTE_MS
from streams.engine.ledger.sampled_minutes import MinutePrices, SampledMinutes, sampled_s
from streams.engine.state.attempt import AttemptState
from streams.engine.state.hour_measures import (
    MEASURES,
    MINUTES_PER_HOUR,
    WALL_CLOCK,
    Fields,
    MinuteLines,
    Sums,
    add_rows,
    sampled_fields,
    shown_fields,
)
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import payer_of
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.intervals import Span, split_at
from streams.engine.timeline.lines import Line

_NO_ROWS: Final[Mapping[Line, tuple[int, int]]] = {}


def minute_fields(attempt: AttemptState, line: Timeline, minute: int) -> Fields:
    """Return the price fields of a minute: those of its newest sample, or else those that held when it ended."""
    winner = attempt.winners.get(minute)
    if winner is not None:
        return sampled_fields(winner.fields)
    return fields_before(line, (minute + 1) * MINUTE_MS)


def is_cut(attempt: AttemptState, line: Timeline, minute: int) -> bool:
    """Return whether the traffic of a minute belongs to several price fields: they change in it, and no sample names them."""
    start_ms = minute * MINUTE_MS
    return minute not in attempt.winners and any(
        start_ms < since_ms < start_ms + MINUTE_MS for since_ms, _ in line.fields[1:]
    )


class SingleSums:
    """The sums of one attempt's single rows."""

    def __init__(
        self,
        job: JobState,
        attempt: AttemptState,
        line: Timeline,
        sampled: SampledMinutes,
        prices: MinutePrices,
    ) -> None:
        self._job, self._attempt, self._line, self._sampled, self._prices = (
            job,
            attempt,
            line,
            sampled,
            prices,
        )
        attempt.row_sums.forget_unless(line.fields)

    def of(self, hour: int) -> Sums:
        """Return the sums of an hour."""
        attempt = self._attempt
        if not attempt.booked_traffic and not attempt.booked_metered:
            return {}
        known = attempt.row_sums.of(hour)
        if known is None:
            known = self._sum(hour)
            attempt.row_sums.put(hour, known)
        return known

    def sampled_spans(self, hour: int) -> Iterator[tuple[Fields, int, int]]:
        """Yield price fields and the time that samples alone pay for, by minute (from_ms, until_ms), once the hour is summed.

        The seconds of a minute are put at its beginning.
        """
        attempt = self._attempt
        for minute in self._metered(hour):
            if seconds := attempt.sampled_s[minute]:
                from_ms = minute * MINUTE_MS
                yield minute_fields(attempt, self._line, minute), from_ms, from_ms + 1000 * seconds

    def _metered(self, hour: int) -> list[int]:
        booked = self._attempt.booked_metered
        if not booked:
            return []
        return [
            minute
            for minute in range(hour * MINUTES_PER_HOUR, (hour + 1) * MINUTES_PER_HOUR)
            if minute in booked
        ]

    def _sum(self, hour: int) -> Sums:
        attempt, sums = self._attempt, Sums()
        minutes = range(hour * MINUTES_PER_HOUR, (hour + 1) * MINUTES_PER_HOUR)
        metered = self._metered(hour)
        missing = [minute for minute in metered if minute not in attempt.sampled_s]
        if missing:
            found = self._sampled.by_node(self._job.id, attempt.number, missing)
            attempt.sampled_s.update((minute, sampled_s(found[minute])) for minute in missing)
        for minute in metered:
            mine = _of(sums, minute_fields(attempt, self._line, minute))
            add_rows(mine, attempt.booked_metered[minute], 1)
            mine[WALL_CLOCK] += 1000 * attempt.sampled_s[minute]
        for minute in minutes:
            if minute in attempt.booked_traffic:
                self._add_traffic(sums, minute)
        return sums

    def _add_traffic(self, sums: Sums, minute: int) -> None:
        """Add the traffic of a minute, cut where the price fields change."""
        start_ms = minute * MINUTE_MS
        rows: MinuteLines = self._attempt.booked_traffic[minute]
        if minute not in self._attempt.winners:
            for since_ms, fields in self._line.fields[1:]:
                if start_ms < since_ms < start_ms + MINUTE_MS:
                    earlier = fields_before(self._line, since_ms)
                    before = self._before(rows, minute, since_ms)
                    add_rows(_of(sums, earlier), before, 1)
                    add_rows(_of(sums, shown_fields(fields)), before, -1)
        add_rows(_of(sums, minute_fields(self._attempt, self._line, minute)), rows, 1)

    def _before(self, rows: MinuteLines, minute: int, at_ms: int) -> MinuteLines:
        """Return the part of a minute's traffic rows that falls before an instant."""
        span = (minute * MINUTE_MS, at_ms)
        found = self._quantities(minute, (span,))
        lost = self._quantities(minute, _common(self._attempt.booked_lost, span))
        return {line: (found.get(line, 0), lost.get(line, 0)) for line in rows}

    def _quantities(self, minute: int, spans: tuple[Span, ...]) -> dict[Line, int]:
        """Return how much of each row falls into these spans."""
        book = self._prices.book
        rows = self._attempt.traffic.rows([(minute, minute + 1)], book, payer_of(self._job, book), spans)
        return {line: inside for line, (_, inside) in rows.get(minute, _NO_ROWS).items()}


def fields_before(line: Timeline, at_ms: int) -> Fields:
    """Return the timeline's price fields just before an instant."""
    return shown_fields(next(fields for since_ms, fields in reversed(line.fields) if since_ms < at_ms))


def _of(sums: Sums, fields: Fields) -> list[int]:
    return sums.setdefault(fields, [0] * MEASURES)


def _common(spans: tuple[Span, ...], span: Span) -> tuple[Span, ...]:
    return tuple((start, end) for start, end, flag in split_at(span, spans) if flag and start < end)
