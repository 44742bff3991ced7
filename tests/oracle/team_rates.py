"""Which teams are at their ceiling, judged the plain way: from what each of their jobs paid in the five minutes before an instant.

Must import nothing of the project. Money is in nano-dollars, times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

MINUTE_MS = 60_000


def flapping(held: Sequence[int], last: int, every: int = 5) -> list[tuple[str, int]]:
    """ "the fourth time within 3 h that it opens: the alert then stays open until the rule has not held for 1 h"; in minutes, each five.

    "Openings meanwhile send no message, but they count". `held`: where the rule holds.
    """
    changes: list[tuple[str, int]] = []
    opened: list[int] = []
    firing = flaps = before = False
    for at in range(every, last + 1, every):
        holds = at in held
        if holds and not before:
            opened.append(at)
            flaps = sum(at - 180 < each for each in opened) >= 4
            if not firing:
                firing = True
                changes.append(("firing", at))
        quiet = not any(at - 60 <= each <= at for each in held)
        if firing and not holds and (quiet or not flaps):
            firing = False
            changes.append(("resolved", at))
        before = holds
    return changes


def team_ceiling(
    paid: Mapping[tuple[str, int], int],
    teams: Mapping[str, str],
    planned: Mapping[str, int],
    limits: Mapping[str, int],
    at_ms: int,
) -> set[str]:
    """ "its jobs together paid `usd_per_hour` or more in the last five minutes ..., without jobs that pay up to 1.2 times what is planned"

    `paid`: by job and minute; `planned`, `limits`: per hour, by job and team; the limit of '' is that of all other teams.
    """
    found = set()
    for team in {*teams.values()}:
        rate = Fraction(0)
        for job in [job for job, of in teams.items() if of == team]:
            of_job = 12 * sum(paid.get((job, at_ms - back * MINUTE_MS), 0) for back in range(1, 6))
            if not planned.get(job) or of_job > Fraction(6, 5) * planned[job]:
                rate += of_job
        limit = limits.get(team, limits.get("", 0))
        if limit and rate >= limit:
            found.add(team)
    return found
