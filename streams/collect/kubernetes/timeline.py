"""Makes the events of an attempt: what all its pods together hold, from instant to instant. Pure functions of the state.

Each event has the whole of what is held from its time on. Its id has the time, and how many pods were known to have come or
gone by then: what becomes known late is said again, and of several events of one instant the meter takes the last by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from schemas.wire_types import MAX_GPU_COUNT, MAX_NODES
from streams.collect.collector import CollectedEvent
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.state import KubernetesAttempt, KubernetesJob, PodState
from streams.collect.values import count_of
from streams.topics import Topic

#: Pods of more owners under one job's id, by a label, have no size that is known.
OWNERS_AT_MOST: Final = 64
_FOR_EVER_S: Final = 2**62
_FAILURES: Final = frozenset({"failed", "preempted"})


class AttemptWriter:
    """Writes the events of one attempt, and marks in its state what was written."""

    def __init__(self, job_id: str, number: int, job: KubernetesJob, since_s: int, options: Options) -> None:
        self._job_id = job_id
        self._number = number
        self._job = job
        self._attempt: KubernetesAttempt = job.attempts[number]
        self._since_s = since_s
        self._options = options

    def events(self, from_s: int) -> Iterator[CollectedEvent]:
        """Yield what was not published yet; holdings before `from_s` are as they were.

        Raises:
            ValueError: The attempt is beyond what an event may hold.
        """
        attempt = self._attempt
        pods = [pod for pod in attempt.pods.values() if pod.devices or self._options.include_cpu_only]
        if not pods or attempt.is_ended:
            return
        end_s = self._end_s()
        if end_s and end_s < self._since_s:  # in that second itself, it may have been seen to run
            attempt.is_ended = True
            return
        yield from self._queued(pods)
        yield from self._holdings(pods, from_s, end_s)
        yield from self._started(pods)
        if end_s:
            attempt.is_ended = True
            yield self._ended(end_s)

    def _end_s(self) -> int:
        """Return when the last pod ended; 0: one has not."""
        ends_s = [pod.end_s for pod in self._attempt.pods.values()]
        return max(ends_s) if all(ends_s) else 0

    def _queued(self, pods: list[PodState]) -> Iterator[CollectedEvent]:
        if self._attempt.is_queued:
            return
        self._attempt.is_queued = True
        created_s = min(pod.created_s for pod in pods)
        if created_s >= self._since_s or not any(pod.bound_s for pod in pods):
            yield self._event("queued", max(created_s, self._since_s), self._job.fields)

    def _started(self, pods: list[PodState]) -> Iterator[CollectedEvent]:
        started_s = min((pod.started_s for pod in pods if pod.started_s), default=0)
        if self._attempt.is_started or not started_s or not self._attempt.first_s:
            return
        self._attempt.is_started = True
        at_s = max(started_s, self._since_s, self._attempt.first_s)
        yield self._event("started", at_s, self._job.fields)

    def _holdings(self, pods: list[PodState], from_s: int, end_s: int) -> Iterator[CollectedEvent]:
        """Yield what is held from each instant on at which it changes, where that was not published so."""
        attempt = self._attempt
        for at_s, facts, held in _changes(pods, self._since_s, from_s):
            known = attempt.forgotten + facts
            if at_s == end_s or attempt.sent.get(at_s) == known:
                continue  # the attempt's end says it; or it was published
            attempt.sent[at_s] = known
            fields, key = self._resources(held), f".{known:06}"
            if not attempt.first_s or at_s < attempt.first_s:
                attempt.first_s = at_s
                yield self._event("allocated", at_s, {**self._job.fields, **fields}, key)
            else:
                yield self._event("scaled", at_s, fields, key)

    def _resources(self, held: list[PodState]) -> dict[str, Any]:
        nodes: Counter[str] = Counter()
        for pod in held:
            nodes[pod.node] += pod.gpu_milli
        if len(nodes) > MAX_NODES or sum(nodes.values()) > MAX_GPU_COUNT * 1000:
            raise ValueError("more nodes or GPUs than an event may have")
        return {
            **self._price_fields(nodes),
            "gpu_count": count_of(sum(nodes.values())),
            **self._requested(),
            "nodes": {node: count_of(milli) for node, milli in sorted(nodes.items()) if milli},
            "instance_count": len(nodes),
            "cpu_count": count_of(sum(pod.cpu_milli for pod in held)),
            "memory_gib": round(sum(pod.memory_mib for pod in held) / 1024, 2),
        }

    def _requested(self) -> dict[str, int]:
        """How many GPUs the attempt is to hold when all of it has started; nothing where that is not known, or is a part of one.

        What a device is depends on its node, so it is taken from the pods that are on one.
        """
        attempt = self._attempt
        sizes = attempt.requested.values()
        if not sizes or not all(sizes) or len(sizes) > OWNERS_AT_MOST:
            return {}
        of_one = {
            name: pod.exact / count
            for pod in attempt.pods.values()
            if pod.bound_s and len(pod.devices) == 1
            for name, count in pod.devices.items()
        }
        wanted: Counter[str] = Counter()
        for each in sizes:
            wanted.update(each)
        if not wanted.keys() <= of_one.keys():
            return {}
        milli = sum(count * of_one[name] for name, count in wanted.items())
        return (
            {"gpus_requested": milli // 1000}
            if not milli % 1000 and 0 < milli <= MAX_GPU_COUNT * 1000
            else {}
        )

    def _price_fields(self, nodes: Mapping[str, int]) -> dict[str, str]:
        """The price fields of the nodes; where they differ, of those with most of the GPUs."""
        found: dict[str, Counter[str]] = {}
        for node, milli in sorted(nodes.items()):
            for name, value in self._attempt.nodes.get(node, {}).items():
                found.setdefault(name, Counter())[value] += milli + 1
        return {name: values.most_common(1)[0][0] for name, values in found.items()}

    def _ended(self, end_s: int) -> CollectedEvent:
        decisive = _decisive(self._attempt)
        labels = {**self._job.fields.get("labels", {})}
        if decisive is None:
            return self._event("completed", end_s, self._job.fields)
        if decisive.word:
            labels["end_reason"] = decisive.word
        if decisive.exit_code is not None:
            labels["exit_code"] = str(decisive.exit_code)
        fields = {**self._job.fields, "labels": labels, "reason": decisive.reason or "unknown"}
        return self._event(decisive.end_type, end_s, fields)

    def _event(self, type_: str, at_s: int, fields: Mapping[str, Any], known: str = "") -> CollectedEvent:
        value = {
            **fields,
            "id": f"{self._job_id}.{self._number}.{type_}.{at_s}{known}",
            "source": self._options.source,
            "time_ms": at_s * 1000,
            "job_id": self._job_id,
            "attempt": self._number,
            "type": type_,
        }
        return CollectedEvent(Topic.JOBS, value)


def _changes(pods: list[PodState], since_s: int, from_s: int) -> Iterator[tuple[int, int, list[PodState]]]:
    """Yield each instant from one on at which pods come or go, how many had come or gone then, and who is there."""
    spans = [
        (max(pod.bound_s, since_s), pod.end_s or _FOR_EVER_S, pod)
        for pod in pods
        if pod.bound_s and (not pod.end_s or pod.end_s > max(pod.bound_s, since_s))
    ]
    instants = {at_s for begin_s, end_s, _ in spans for at_s in (begin_s, end_s)} - {_FOR_EVER_S}
    for at_s in sorted(each for each in instants if each >= max(from_s, since_s)):
        facts = sum((begin_s <= at_s) + (end_s <= at_s) for begin_s, end_s, _ in spans)
        yield at_s, facts, [pod for begin_s, end_s, pod in spans if begin_s <= at_s < end_s]


def _decisive(attempt: KubernetesAttempt) -> PodState | None:
    """The pod whose end is the attempt's; None: it completed.

    Of the pods that were not replaced, the first one that failed or had to leave: the others fail because of it. What was
    deleted ends an attempt only if no pod completed.
    """
    last = [pod for pod in attempt.pods.values() if not pod.is_replaced]
    last.sort(key=lambda pod: (pod.left_s, pod.end_s, pod.name))
    for pod in last:
        if pod.end_type in _FAILURES:
            return pod
    if attempt.has_completed or not last:
        return None
    return last[-1]
