"""Which sources run ahead of the log, judged the plain way: minute by minute, from those in which records of them were ahead.

Must import nothing of the project. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

MINUTE_MS = 60_000


def clock_ahead(minutes: Collection[int], until_ms: int, least: int = 3) -> Iterator[tuple[int, str]]:
    """ "in 3 minutes, less than 90 min apart, records of the source came that are more than 5 min ahead ...; until none has come for
    90 min": when its alert changes, and how; judged at whole five minutes.
    """
    run: list[int] = []
    is_firing = False
    for now_ms in range(0, until_ms + 1, MINUTE_MS):
        ended_ms = now_ms - MINUTE_MS  # the minute that has just ended
        if ended_ms in minutes:
            run = [*run, ended_ms] if run and ended_ms - run[-1] <= 90 * MINUTE_MS else [ended_ms]
        if now_ms % (5 * MINUTE_MS):
            continue
        is_quiet = not run or run[-1] < now_ms - 90 * MINUTE_MS
        if is_firing and is_quiet:
            yield now_ms, "resolved"
            is_firing = False
        elif not is_firing and not is_quiet and len(run) >= least:
            yield now_ms, "firing"
            is_firing = True
