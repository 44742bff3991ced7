"""When and how a pod ends. Pure functions of what the API says of it.

A pod holds its devices until its last container has ended, or, where nobody can say when that was, until the object is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from streams.collect.kubernetes.objects import Pod, Terminated, condition, seconds
from streams.collect.values import event_text

_FINAL: Final = frozenset({"Succeeded", "Failed"})
#: Reasons of the condition DisruptionTarget -> `reason`, on nodes that are bought for good and on spot nodes.
_DISRUPTIONS: Final = {
    "PreemptionByScheduler": ("preemption", "preemption"),
    "EvictionByEvictionAPI": ("preemption", "spot_reclaim"),
    "DeletionByTaintManager": ("node_failure", "spot_reclaim"),
    "DeletionByPodGC": ("node_failure", "spot_reclaim"),
    "TerminationByKubelet": ("node_failure", "spot_reclaim"),
}
#: A pod's own reasons, of which the node is the cause.
_OF_NODE: Final = frozenset(
    {"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "UnexpectedAdmissionError", "NodeAffinity"}
)


class PodEnd(NamedTuple):
    """How a pod ended: the event's type and `reason`; Kubernetes' own word, and the exit code where there is one."""

    at_s: int
    type: str
    reason: str
    word: str = ""
    exit_code: int | None = None


def leaving_s(pod: Pod) -> int:
    """Return when somebody asked for the end of a pod; 0: nobody did.

    Raises:
        ValueError: A time is none.
    """
    asked_s = seconds(pod.metadata.deletion_timestamp)
    return max(asked_s - max(pod.metadata.deletion_grace_period_seconds or 0, 0), 1) if asked_s else 0


def end_of(pod: Pod, *, asked_s: int, is_gone: bool, is_spot: bool, seen_s: int, now_s: int) -> PodEnd | None:
    """How a pod ended; None: it has not.

    `asked_s` is when somebody first asked for its end (0: nobody did): the last word of the API may name a later time.
    `seen_s` is when everything was read last: the end of a pod of which nothing else is known.

    Raises:
        ValueError: A time is none.
    """
    if pod.status.phase not in _FINAL and not is_gone:
        return None
    at_s = max(_end_s(pod, seen_s, now_s), _begin_s(pod))
    disruption = condition(pod.status.conditions, "DisruptionTarget")
    if disruption is not None:
        words = _DISRUPTIONS.get(disruption.reason or "", ("unknown", "unknown"))
        if not (disruption.reason == "TerminationByKubelet" and pod.status.reason == "Evicted"):
            return PodEnd(at_s, "preempted", words[is_spot], event_text(disruption.reason))
    if asked_s and not _finished_before(pod, asked_s):
        return PodEnd(at_s, "cancelled", "unknown", "Deleted")
    if pod.status.phase == "Succeeded":
        return PodEnd(at_s, "completed", "")
    if pod.status.phase != "Failed":
        return PodEnd(at_s, "cancelled", "unknown", "Gone")
    return _failure(pod, at_s, is_spot=is_spot)


def _failure(pod: Pod, at_s: int, *, is_spot: bool) -> PodEnd:
    word = event_text(pod.status.reason)
    ends = sorted(
        (each for each in _terminated(pod) if each.exit_code), key=lambda each: seconds(each.finished_at)
    )
    first = ends[0] if ends else None
    code = first.exit_code if first else None
    if any(each.reason == "OOMKilled" for each in ends):
        return PodEnd(at_s, "failed", "out_of_memory", "OOMKilled", code)
    if word == "DeadlineExceeded":
        return PodEnd(at_s, "failed", "timeout", word, code)
    if word == "Evicted":  # by the kubelet, which is short of something
        is_memory = "resource: memory" in (pod.status.message or "")[:1_000]
        return PodEnd(at_s, "failed", "out_of_memory" if is_memory else "unknown", word, code)
    if word in _OF_NODE:
        kind = ("preempted", "spot_reclaim") if is_spot else ("failed", "node_failure")
        return PodEnd(at_s, *kind, word, code)
    return PodEnd(at_s, "failed", "unknown", word or event_text(first.reason if first else ""), code)


def _terminated(pod: Pod) -> Iterator[Terminated]:
    for status in pod.status.container_statuses or ():
        if status.state is not None and status.state.terminated is not None:
            yield status.state.terminated


def _finished_before(pod: Pod, at_s: int) -> bool:
    finished_s = [seconds(each.finished_at) for each in _terminated(pod)]
    return bool(finished_s) and max(finished_s) < at_s


def _begin_s(pod: Pod) -> int:
    scheduled = condition(pod.status.conditions, "PodScheduled")
    bound_s = seconds(scheduled.last_transition_time) if scheduled else 0
    return max(bound_s, seconds(pod.metadata.creation_timestamp))


def _end_s(pod: Pod, seen_s: int, now_s: int) -> int:
    """The end of the last container, or what is nearest to it of what is known."""
    statuses = pod.status.container_statuses or []
    finished_s = [seconds(each.finished_at) for each in _terminated(pod)]
    if statuses and len(finished_s) == len(statuses) and all(finished_s):
        return max(finished_s)
    deleted_s = seconds(pod.metadata.deletion_timestamp)
    if deleted_s:
        return min(deleted_s, now_s)  # it may have needed less than the grace that it was given
    return (_known_s(pod) if pod.status.phase in _FINAL else 0) or seen_s


def _known_s(pod: Pod) -> int:
    """The last time that says that a pod was ending; 0: none does."""
    disruption = condition(pod.status.conditions, "DisruptionTarget")
    changed = [*(each for each in pod.status.conditions or () if each.type == "Ready"), disruption]
    known_s = [seconds(each.last_transition_time) for each in changed if each is not None]
    finished_s = [seconds(each.finished_at) for each in _terminated(pod)]
    return max((*known_s, *finished_s), default=0)


def is_untimed(pod: Pod) -> bool:
    """Whether a pod has run and ended, and nothing says when.

    Raises:
        ValueError: A time is none.
    """
    has_run = any(True for _ in _terminated(pod))
    is_over = pod.status.phase in _FINAL and not seconds(pod.metadata.deletion_timestamp)
    return is_over and has_run and not _known_s(pod)
