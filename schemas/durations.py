"""Lengths of time in ms and s, and the instants before and after all others; each is defined here only."""

from __future__ import annotations

from typing import Final

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS

MINUTE_S: Final = 60
HOUR_S: Final = 60 * MINUTE_S
DAY_S: Final = 24 * HOUR_S

#: An instant that never comes, or the end of what is open: sums of it and any length do not overflow int64.
NEVER_MS: Final = 2**62
#: The end of what a DateTime of ClickHouse can say, 2106-02-07T06:28:16Z.
DATETIME_END_MS: Final = 2**32 * SECOND_MS
#: Before every instant.
BEGINNING_MS: Final = -NEVER_MS
