"""Which jobs are looked up for a question, where a store has very many: those of a part of its time at once, not all that ever ran.

A join holds all jobs in memory that it may look up: some hundred thousand are more than one statement may take.
"""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.costs.day_parts import Steps
from streams.costs.parts import HourSpan
from streams.costs.periods import floor_ms, next_ms
from streams.costs.request import JOB_LEVELS, LABEL, REASON, CostRequest, Metric, Period

#: So many are looked up at once; a part of a store whose jobs are not spread evenly may have some times as many.
JOBS_MAX: Final = 100_000
#: Neither reads a row: both numbers stand beside the data.
_KNOWN: Final = """SELECT (SELECT count() FROM jobs) AS jobs, toInt64(toUnixTimestamp(min(hour))) AS first_s, toInt64(toUnixTimestamp(max(hour))) AS last_s
FROM job_hours"""
_LOOKED_UP: Final = frozenset((Metric.m5, Metric.m9))


class AskedPart(NamedTuple):
    """A part of the hours of a question."""

    span: HourSpan
    has_own_jobs: bool  # jobs are looked up that have an hour in it, no others
    is_compact: bool = False  # all of very many are looked up


def job_parts(request: CostRequest, span: HourSpan) -> Steps[list[AskedPart]]:
    """Ask how many jobs there are; the parts of a span, in order, cut where cells begin."""
    whole = [AskedPart(span, has_own_jobs=False)]
    if not _looks_up(request):
        return whole
    ((jobs, first_s, last_s),) = (yield _KNOWN, {}).rows()
    count = int(str(jobs))
    if count <= JOBS_MAX:
        return whole
    first_ms, end_ms = int(str(first_s)) * 1_000, int(str(last_s)) * 1_000 + HOUR_MS
    length_ms = max((end_ms - first_ms) * JOBS_MAX // count, HOUR_MS)
    begin_ms = first_ms if span.begin_ms is None else max(span.begin_ms, first_ms)
    end_ms = end_ms if span.end_ms is None else min(span.end_ms, end_ms)
    if request.per is Period.all:
        is_short = end_ms - begin_ms <= length_ms
        return [AskedPart(span, has_own_jobs=is_short, is_compact=not is_short)]
    cuts: list[int] = []
    at_ms = begin_ms
    while at_ms + length_ms < end_ms:
        start_ms = floor_ms(at_ms, request)
        at_ms = max(floor_ms(at_ms + length_ms, request), next_ms(start_ms, request))
        if at_ms < end_ms:
            cuts.append(at_ms)
    edges = [span.begin_ms, *cuts, span.end_ms]
    return [AskedPart(HourSpan(*each), has_own_jobs=True) for each in itertools.pairwise(edges)]


def _looks_up(request: CostRequest) -> bool:
    by = (level in JOB_LEVELS or level == REASON or level.startswith(LABEL) for level in request.by)
    return request.metric in _LOOKED_UP or any(by)
