"""Which nodes of a job do less than its others, judged the plain way: five minutes by five minutes, at one instant.

Must import nothing of the project. Times are epoch milliseconds; a place is a job's node in a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MINUTE_MS = 60_000
FIVE_MINUTES_MS = 300_000
LATE_MS = 2 * MINUTE_MS


class Minute(NamedTuple):
    """What the GPUs of a node did in a minute: sampled GPU-seconds, of these the productive ones, and those of active multiprocessors."""

    sampled_s: float
    productive_s: float
    sm_s: float


#: By node and minute (ms).
Used = Mapping[tuple[str, int], Minute]


class Five(NamedTuple):
    """What the GPUs of a node did in five minutes: the share of work, that without busy time in which they only waited, and how many they are."""

    ratio: float
    at_work: float
    gpus: int


def _in_five(used: Used, end_ms: int) -> dict[str, Five]:
    """By node, in the five minutes before an instant."""
    found = {}
    for node in {node for node, _ in used}:
        minutes = [used.get((node, end_ms - back * MINUTE_MS), Minute(0, 0, 0)) for back in range(1, 6)]
        sampled = sum(each.sampled_s for each in minutes)
        if sampled:
            ratio = sum(each.productive_s for each in minutes) / sampled
            waits = ratio > 0.89999 and sum(each.sm_s for each in minutes) <= 0.1 * sampled
            found[node] = Five(ratio, 0 if waits else ratio, round(sampled / 300))
    return found


def _states(used: Used, end_ms: int) -> dict[str, str]:
    """ "slow", "even" or "idle" (all do little) for each node that is compared."""
    by_node = _in_five(used, end_ms)
    counts = [each.gpus for each in by_node.values()]
    if not counts:
        return {}
    usual_size = max(sorted(set(counts), reverse=True), key=counts.count)
    alike = {node: each for node, each in by_node.items() if each.gpus == usual_size}
    if len(alike) < 2:
        return {}
    usual = sorted(each.ratio for each in alike.values())[len(alike) // 2]
    if usual >= 0.5 and any(each.ratio < 0.5 * usual for each in alike.values()):
        return {node: "slow" if each.ratio < 0.5 * usual else "even" for node, each in alike.items()}
    most = max(each.at_work for each in alike.values())
    waiting = [node for node, each in alike.items() if each.at_work < 0.5 * most]
    if most >= 0.5 and 2 * len(waiting) > len(alike):
        return {node: "slow" if node in waiting else "even" for node in alike}
    return dict.fromkeys(alike, "even" if usual >= 0.5 else "idle")


def straggler(used: Used, at_ms: int, fires: bool) -> set[str] | bool:
    """The nodes of a job that an alert opens about; while it fires: whether it goes on.

    "some of its nodes, which worked as the others before, have done less than half of what the others do in each five minutes of the last
    30, of a job of two or three nodes of the last 60: a few, or most of them; until none does for 10 min"
    """
    states = [_states(used, at_ms - LATE_MS - back * FIVE_MINUTES_MS) for back in range(160)]
    if fires:
        return any("slow" in each.values() for each in states[:2])
    now = states[0]
    lengths, worked = {}, {}
    for node in [node for node, state in now.items() if state == "slow"]:
        lengths[node] = next(back for back, each in enumerate(states) if each.get(node) != "slow")
        before = states[lengths[node] : lengths[node] + 72]
        worked[node] = sum(each.get(node) == "even" for each in before) >= 2
    found = {
        node for node, length in lengths.items() if length >= (6 if worked[node] and len(now) >= 4 else 12)
    }
    if not found:
        return set()
    longest = max(lengths[node] for node in found)
    earlier = states[longest : longest + 72]
    for node in {node for each in earlier for node in each}:
        length = 0
        for each in earlier:
            length = length + 1 if each.get(node) == "slow" else 0
            if longest < 1.5 * length:
                return set()
    is_few = len(found) * 8 <= len(now) or (len(found) == 1 and len(now) >= 4)
    return found if all(worked[node] for node in found) or is_few else set()
