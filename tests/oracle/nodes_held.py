"""Which jobs hold what others hold, judged the plain way: minute by minute, at one instant.

Must import nothing of the project. Quantities are thousandths of a GPU times ms; times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

MINUTE_MS = 60_000
FIVE_MINUTES_MS = 300_000
WHOLE_GPU = 1000 * MINUTE_MS


class Place(NamedTuple):
    """A minute of a node."""

    node: str
    minute_ms: int


class Seen(NamedTuple):
    """What a log says of nodes: what they have, what jobs hold of them, and where jobs are sampled."""

    has: Mapping[Place, int]
    held: Mapping[Place, Mapping[str, int]]
    sampled: Collection[tuple[Place, str]]
    began_ms: Mapping[str, int]


def double_held(seen: Seen, at_ms: int, minutes: int = 8) -> set[str]:
    """ "more whole GPUs of a node than its events say it has, in each of the last 8 minutes": the jobs without room."""
    found: set[str] = set()
    for node in {place.node for place in seen.has}:
        places = [Place(node, at_ms - MINUTE_MS * back) for back in range(1, minutes + 1)]
        if any(sum(seen.held.get(each, {}).values()) <= seen.has.get(each, 0) for each in places):
            continue
        if any(each not in seen.has for each in places):
            continue
        whole = {
            job: min(seen.held[each].get(job, 0) for each in places) // WHOLE_GPU
            for job in seen.held[places[0]]
        }
        jobs = [job for job, gpus in whole.items() if gpus]
        room = max(-(-seen.has[each] // WHOLE_GPU) for each in places)
        alive = [job for job in jobs if any((each, job) in seen.sampled for each in places)]
        ranked = sorted(jobs)
        ranked.sort(key=lambda job: seen.began_ms[job], reverse=True)
        ranked.sort(key=lambda job: job in alive, reverse=True)
        without = set()
        for job in ranked:
            fits = whole[job] <= room
            room -= whole[job] if fits else 0
            if not fits:
                without.add(job)
        if without != set(jobs):
            found |= without
    return found


def goes_on(seen: Seen, job: str, at_ms: int) -> bool:
    """ "until it is no longer paid, or is sampled again": paid in the last five minutes, and no samples ten minutes before."""
    paid = any(
        of_place.get(job) and at_ms - FIVE_MINUTES_MS <= place.minute_ms < at_ms
        for place, of_place in seen.held.items()
    )
    until_ms = at_ms - 2 * FIVE_MINUTES_MS
    alive = any(
        who == job and until_ms - FIVE_MINUTES_MS <= place.minute_ms < until_ms for place, who in seen.sampled
    )
    return paid and not alive


def after_node(seen: Seen, at_ms: int, minutes: int = 8) -> set[str]:
    """ "billed for GPUs of a node in each of 8 minutes after the node was `terminated`, and held them before" """
    found: set[str] = set()
    before_ms = at_ms - MINUTE_MS * minutes
    for job in {job for of_place in seen.held.values() for job in of_place}:
        for node in {place.node for place in seen.has}:
            places = [Place(node, at_ms - MINUTE_MS * back) for back in range(1, minutes + 1)]
            billed = all(seen.held.get(each, {}).get(job) and each not in seen.has for each in places)
            paid_since = [
                place
                for place in seen.has
                if place.node == node
                and place.minute_ms < before_ms
                and place.minute_ms + MINUTE_MS > seen.began_ms[job]
            ]
            if billed and paid_since:
                found.add(job)
    return found


def waits(seen: Seen, job: str, at_ms: int) -> bool:
    """ "of a job that was sampled in the hour before, at two whole five minutes in a row" """
    heard = any(
        who == job and at_ms - 60 * MINUTE_MS <= place.minute_ms < at_ms for place, who in seen.sampled
    )
    before_ms = at_ms - FIVE_MINUTES_MS
    return heard and job not in double_held(seen, before_ms) | after_node(seen, before_ms)


def changes(seen: Seen, instants: range) -> list[tuple[str, str, str, int]]:
    """(rule, job, status, instant): while one of both rules fires for a job, the other one opens none for it."""
    found, firing = list[tuple[str, str, str, int]](), dict[str, str]()
    for at_ms in instants:
        holds = {"double_held": double_held(seen, at_ms), "after_node": after_node(seen, at_ms)}
        for job, rule in [*firing.items()]:
            own = job in holds[rule] and (rule == "double_held" or job not in holds["double_held"])
            if not own and not goes_on(seen, job, at_ms):
                found.append((rule, job, "resolved", at_ms))
                del firing[job]
        for rule, jobs in holds.items():
            for job in (job for job in jobs - firing.keys() if not waits(seen, job, at_ms)):
                found.append((rule, job, "firing", at_ms))
                firing[job] = rule
    return found


def metered_twice(
    seen: Seen, sources: Mapping[str, Collection[str]], at_ms: int, minutes: int = 8
) -> set[frozenset[str]]:
    """ "other sources began within 5 min, the same GPUs of the same nodes in each of 8 minutes of their first hour": the pairs"""
    found: set[frozenset[str]] = set()
    window = [at_ms - MINUTE_MS * back for back in range(1, minutes + 1)]
    for one in sources:
        for other in sources:
            latest_ms = max(seen.began_ms[one], seen.began_ms[other])
            if (
                one >= other
                or set(sources[one]) & set(sources[other])
                or not (sources[one] and sources[other])
            ):
                continue
            if (
                abs(seen.began_ms[one] - seen.began_ms[other]) > FIVE_MINUTES_MS
                or at_ms - latest_ms > 60 * MINUTE_MS
            ):
                continue
            same, room = True, True
            for minute_ms in window:
                mine, its = (
                    {p.node: of[job] for p, of in seen.held.items() if p.minute_ms == minute_ms and job in of}
                    for job in (one, other)
                )
                whole = minute_ms > latest_ms
                same = same and bool(mine) and (mine == its if whole else mine.keys() == its.keys())
                for node in mine.keys() & its.keys():
                    room = room and mine[node] + its[node] <= seen.has.get(Place(node, minute_ms), 0)
            if same and not room:
                found.add(frozenset((one, other)))
    return found
