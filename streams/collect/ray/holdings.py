"""Which GPUs a job holds when: by its entry point, placement groups, actors and tasks, or all of its cluster. Pure functions.

What runs inside a placement group is not counted again: the group holds its GPUs, used or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from schemas.wire_types import MAX_GPU_COUNT
from streams.collect.ray.options import Options
from streams.collect.ray.records import RayActor, RayGroup, RayJob, RayNode, RayTask
from streams.collect.values import count_of


class RayCluster(NamedTuple):
    """All that Ray says at a poll: nodes by their ids, supervisors by submission, what holds GPUs by its driver."""

    jobs: Sequence[RayJob]
    nodes: Mapping[str, RayNode]
    supervisors: Mapping[str, RayActor]
    actors: Mapping[str, Sequence[RayActor]]
    groups: Mapping[str, Sequence[RayGroup]]
    tasks: Mapping[str, Sequence[RayTask]]


class Holding(NamedTuple):
    """Some GPUs of a node, from an instant to another; `until_ms` is 0 while they are held."""

    node: str
    gpu_milli: int
    from_ms: int
    until_ms: int


class HeldGpus(NamedTuple):
    """What a job holds at an instant: thousandths of a GPU by node."""

    gpu_milli: Mapping[str, int]

    @property
    def digest(self) -> str:
        """A short text that differs where the GPUs differ; empty for none."""
        if not self.gpu_milli:
            return ""
        text = msgspec.json.encode(sorted(self.gpu_milli.items()))
        return hashlib.blake2b(text, digest_size=8).hexdigest()

    def fields(self, nodes: Mapping[str, RayNode], options: Options) -> dict[str, Any]:
        """The fields of an event; nodes only where all of them are known."""
        found: dict[str, Any] = {"gpu_count": count_of(sum(self.gpu_milli.values()))}
        if not self.gpu_milli.keys() <= nodes.keys():
            return found
        by_name: dict[str, int] = {}
        for node, milli in self.gpu_milli.items():
            by_name[nodes[node].name] = by_name.get(nodes[node].name, 0) + milli
        found["nodes"] = {name: count_of(milli) for name, milli in sorted(by_name.items())}
        types = {nodes[node].gpu_type for node in self.gpu_milli}
        if len(types) == 1 and (type_ := types.pop()):
            found["gpu_type"] = options.gpu_types.get(type_, type_)
        return found


def holdings_of(
    job: RayJob, cluster: RayCluster, removed_ms: Mapping[str, int], options: Options
) -> list[Holding]:
    """What a job holds, has held and, as far as it is known, will hold; nothing is cut to the job's own time.

    `removed_ms` is when placement groups were seen to be gone: Ray does not say it.
    """
    if options.gpu_scope == "cluster":
        return [
            Holding(node.node, node.gpu_milli, node.start_ms, node.end_ms)
            for node in cluster.nodes.values()
            if node.gpu_milli
        ]
    return list(_reserved(job, cluster, removed_ms))


def asked_for(job: RayJob, cluster: RayCluster, at_ms: int, options: Options) -> int:
    """How many GPUs a job has asked for by an instant: in placement groups, and for its entry point.

    0 where that is none or a part of one, or where it holds more in actors and tasks, of which nobody says how many will come.
    """
    if options.gpu_scope == "cluster":
        return 0
    actors = (each for each in cluster.actors.get(job.driver, ()) if each.gpu_milli and not each.in_group)
    loose_ms = [each.start_ms for held in (actors, cluster.tasks.get(job.driver, ())) for each in held]
    groups = [each for each in cluster.groups.get(job.driver, ()) if each.asked_ms <= at_ms]
    if not groups or any(0 < from_ms <= at_ms for from_ms in loose_ms):
        return 0
    supervisor = cluster.supervisors.get(job.submission)
    entry_milli = 0 if supervisor is None or supervisor.in_group else supervisor.gpu_milli
    milli = entry_milli + sum(each.wanted_milli for each in groups)
    return milli // 1000 if not milli % 1000 and milli <= MAX_GPU_COUNT * 1000 else 0


def _reserved(job: RayJob, cluster: RayCluster, removed_ms: Mapping[str, int]) -> Iterator[Holding]:
    supervisor = cluster.supervisors.get(job.submission)
    for actor in (*cluster.actors.get(job.driver, ()), *([supervisor] if supervisor else ())):
        if actor.start_ms and actor.gpu_milli and not actor.in_group:
            yield Holding(actor.node, actor.gpu_milli, actor.start_ms, actor.end_ms)
    for group in cluster.groups.get(job.driver, ()):
        for node, milli in group.gpu_milli.items():
            yield Holding(node, milli, group.start_ms, removed_ms.get(group.group, 0))
    for task in cluster.tasks.get(job.driver, ()):
        yield Holding(task.node, task.gpu_milli, task.start_ms, task.end_ms)


def held_over(holdings: Iterable[Holding], first_ms: int, last_ms: int) -> Iterator[tuple[int, HeldGpus]]:
    """Yield what is held at an instant, and after each later one, up to the last, at which something changes."""
    changes: dict[int, list[tuple[str, int]]] = {}
    for each in holdings:
        from_ms = max(each.from_ms, first_ms)
        if from_ms > last_ms or 0 < each.until_ms <= from_ms:
            continue
        changes.setdefault(from_ms, []).append((each.node, each.gpu_milli))
        if 0 < each.until_ms <= last_ms:
            changes.setdefault(each.until_ms, []).append((each.node, -each.gpu_milli))
    held: dict[str, int] = {}
    for at_ms in sorted({first_ms, *changes}):
        for node, milli in changes.get(at_ms, ()):
            held[node] = held.get(node, 0) + milli
            if not held[node]:
                del held[node]
        yield at_ms, HeldGpus(dict(held))
