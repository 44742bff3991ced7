"""`silent_job`: a job runs, and sent neither a heartbeat nor a sample for long.

A pure function of the job's state; a span may begin in the future, and stands unless something is heard before.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.durations import BEGINNING_MS
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.intervals import Span, union


def silent_spans(
    timelines: Mapping[int, Timeline], heard_ms: int, lapse_ms: int, never_heard_ms: int
) -> tuple[Span, ...]:
    """Return the span in which it runs without activity for `lapse_ms`; of several running periods the last one counts.

    `heard_ms`: the newest heartbeat or sample, BEGINNING_MS if there was none ever. Then only running with GPUs counts,
    for `never_heard_ms` (0: never).
    """
    never = heard_ms == BEGINNING_MS
    if never and not never_heard_ms:
        return ()
    running = [
        (segment.start_ms, segment.end_ms)
        for line in timelines.values()
        for segment in line.paid(OPEN_MS)
        if segment.phase == "running" and (segment.values.gpu_milli > 0 or not never)
    ]
    if not running:
        return ()
    start_ms, until_ms = union(running)[-1]
    from_ms = start_ms + never_heard_ms if never else max(start_ms, heard_ms) + lapse_ms
    return ((from_ms, until_ms),) if from_ms < until_ms else ()
