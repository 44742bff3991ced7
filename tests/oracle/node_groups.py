"""Which node groups came up and stay without jobs, judged the plain way: minute by minute.

Must import nothing of the project. Minutes are numbers; a node is paid in some, and used in some.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

TOGETHER = 60  # minutes
SLOT = 5


class PaidNode(NamedTuple):
    """A node: the minutes in which it is paid, those in which a job holds it, and what it costs in an hour."""

    group: str
    cluster: str
    paid: AbstractSet[int]
    used: AbstractSet[int]
    usd_per_hour: float


def begun(node: PaidNode, now: int) -> int | None:
    """The minute in which it came up and since which no job has used it, up to the minute `now`; None: there is none."""
    minute = now - 1
    if minute not in node.paid:
        return None
    while minute - 1 in node.paid:
        minute -= 1
    return minute if not any(minute <= each < now for each in node.used) else None


def is_known(
    nodes: Mapping[str, PaidNode], unplaced: Mapping[str, AbstractSet[int]], cluster: str, now: int
) -> bool:
    """ "in a cluster whose other nodes jobs use", of which events say where they run; by whole five minutes of the hour before"""
    end = now // SLOT * SLOT
    hour = range(end - TOGETHER, end)
    used = any(each in hour for node in nodes.values() if node.cluster == cluster for each in node.used)
    return used and not any(each in hour for where in (cluster, "") for each in unplaced.get(where, ()))


def empty_group(
    nodes: Mapping[str, PaidNode],
    unplaced: Mapping[str, AbstractSet[int]],
    group: str,
    until: int,
    minutes: int = 13,
) -> list[tuple[str, int]]:
    """When the group's alert fires and is over: "3 or more came up within an hour, cost $10/h, each had no job for 13 min" """
    changes: list[tuple[str, int]] = []
    opened: int | None = None
    of_group = [node for node in nodes.values() if node.group == group]
    for now in range(1, until + 1):
        least = (now if opened is None else opened) - TOGETHER
        ripe = []
        for node in of_group:
            begin = begun(node, now)
            if begin is not None and begin >= least and now - begin > minutes:
                ripe.append(node)
        enough = len(ripe) >= 3 and sum(node.usd_per_hour for node in ripe) >= 10
        if opened is None and enough and is_known(nodes, unplaced, of_group[0].cluster, now):
            opened = now
            changes.append(("firing", now))
        elif opened is not None and not enough:
            opened = None
            changes.append(("resolved", now))
    return changes
