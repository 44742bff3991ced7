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
    """What the GPUs of a node did in a minute: sampled GPU-seconds, and of these the productive ones."""

    sampled_s: float
    productive_s: float


#: By node and minute (ms).
Used = Mapping[tuple[str, int], Minute]


def _in_five(used: Used, end_ms: int) -> dict[str, tuple[float, int]]:
    """By node: the share of work, and how many GPUs were sampled, in the five minutes before an instant."""
    found = {}
    for node in {node for node, _ in used}:
        minutes = [used.get((node, end_ms - back * MINUTE_MS), Minute(0, 0)) for back in range(1, 6)]
        sampled = sum(each.sampled_s for each in minutes)
        if sampled:
            found[node] = sum(each.productive_s for each in minutes) / sampled, round(sampled / 300)
    return found


def _states(used: Used, end_ms: int) -> dict[str, str]:
    """ "slow", "even" or "idle" (all do little) for each node that is compared."""
    by_node = _in_five(used, end_ms)
    counts = [gpus for _, gpus in by_node.values()]
    if not counts:
        return {}
    usual_size = max(sorted(set(counts), reverse=True), key=counts.count)
    ratios = {node: ratio for node, (ratio, gpus) in by_node.items() if gpus == usual_size}
    if len(ratios) < 2:
        return {}
    usual = sorted(ratios.values())[len(ratios) // 2]
    if usual < 0.5:
        return dict.fromkeys(ratios, "idle")
    return {node: "slow" if ratio < 0.5 * usual else "even" for node, ratio in ratios.items()}


def straggler(used: Used, at_ms: int, fires: bool) -> set[str] | bool:
    """The nodes of a job that an alert opens about; while it fires: whether it goes on.

    "some of its nodes, which worked as the others before, have done less than half of what the others do in each five minutes of the last
    30, of a job of two or three nodes of the last 60; until none does for 10 min"
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
