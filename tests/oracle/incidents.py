"""The rule `incident`, judged the plain way: minute by minute, from when alerts with a cause fired.

Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.oracle.model import MINUTE_MS

TOGETHER_MS = 2 * MINUTE_MS
#: "If the rule opens for the same job within 10 min of clearing (10 min included), it is the same episode"
SAME_EPISODE_MS = 10 * MINUTE_MS
DAY_MS = 24 * 60 * MINUTE_MS


class Fired(NamedTuple):
    """An episode of a rule about a job; `resolved_ms`: when it was over for good."""

    cause: str
    job_id: str
    started_ms: int
    resolved_ms: int | None


class Told(NamedTuple):
    cause: str
    started_ms: int
    resolved_ms: int | None
    jobs: int


def incidents(
    alerts: Sequence[Fired],
    until_ms: int,
    jobs: int = 3,
    prices_ms: Mapping[str, Sequence[int]] | None = None,
) -> list[Told]:
    """ "Alerts about 3 jobs or more have one cause and opened within 2 min; until 10 min after the last of them is over".

    `prices_ms`: when `price_jump` told of a cause: for a day there is no incident of it.
    """
    found: list[Told] = []
    for cause in sorted({each.cause for each in alerts}):
        of_cause = [each for each in alerts if each.cause == cause]
        began_ms: int | None = None
        count = 0
        for at_ms in range(0, until_ms + 1, MINUTE_MS):
            if began_ms is not None:
                members = [each for each in of_cause if began_ms - TOGETHER_MS <= each.started_ms < at_ms]
                # Nothing may begin again at this minute, either.
                if all(
                    each.resolved_ms is not None
                    and each.resolved_ms + SAME_EPISODE_MS < at_ms - MINUTE_MS + 1
                    for each in members
                ):
                    found.append(Told(cause, began_ms, at_ms, count))
                    began_ms = None
            recent = {each.job_id for each in of_cause if at_ms - TOGETHER_MS <= each.started_ms < at_ms}
            is_told = any(at_ms - DAY_MS <= each <= at_ms for each in (prices_ms or {}).get(cause, ()))
            if began_ms is None and not is_told and len(recent) >= jobs:
                began_ms, count = at_ms, len(recent)
        if began_ms is not None:
            found.append(Told(cause, began_ms, None, count))
    return sorted(found, key=str)
