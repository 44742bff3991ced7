"""What is remembered of pods, jobs and nodes between two polls, as plain values that are stored as JSON.

All of it is the position: a poll that fails leaves the former one as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

import msgspec

from streams.collect.collector import Position
from streams.collect.kubernetes.node_facts import CLAIMED, NodeFacts
from streams.errors import TrainfareError

#: How long a job without pods is remembered, for the number of its next attempt.
REMEMBERED_S: Final = 7 * 86_400


class PodState(msgspec.Struct, array_like=True):
    """A pod of an attempt; `addresses` are its own, not its node's. Times in s, 0: not yet; they are set once.

    `gpu_milli` is what it holds in events: `share` by its limits and `claimed` by ResourceClaims, numerators and denominators of thousandths. `asked_milli`
    is what the limits ask for, `gpus` the thousandths of each GPU that the scheduler names.
    """

    name: str
    slot: str
    created_s: int
    devices: dict[str, int]
    cpu_milli: int
    memory_mib: int
    node: str = ""
    gpu_milli: int = 0
    bound_s: int = 0
    started_s: int = 0
    leaving_s: int = 0
    end_s: int = 0
    end_type: str = ""
    reason: str = ""
    word: str = ""
    exit_code: int | None = None
    is_replaced: bool = False
    is_gone: bool = False
    addresses: list[str] = []
    share: tuple[int, int] = (0, 1)
    claimed: tuple[int, int] = (0, 1)
    asked_milli: int = 0
    gpus: dict[str, int] = {}

    @property
    def unclaimed_milli(self) -> int:
        """What it holds by its limits, as events have it."""
        return self.gpu_milli - self.devices.get(CLAIMED, 0)

    @property
    def unclaimed(self) -> Fraction:
        """What it holds by its limits, in thousandths; of a pod that version 0.1 read it is what that published."""
        return Fraction(*self.share) or Fraction(self.unclaimed_milli)

    @property
    def exact(self) -> Fraction:
        """What it holds, in thousandths."""
        return self.unclaimed + (Fraction(*self.claimed) or self.devices.get(CLAIMED, 0))

    @property
    def left_s(self) -> int:
        """Return when it ended or was asked to; 0: not yet."""
        return min(filter(None, (self.leaving_s, self.end_s)), default=0)


class KubernetesAttempt(msgspec.Struct):
    """An attempt: its pods by uid, the price fields of its nodes, and what was published of it.

    `requested` has the devices that all pods of each owner ask for (empty: not known). `sent` has, for each instant at which the holdings change, how many pods were known to have come or gone by then;
    `forgotten` is how many of that were pods that are not kept; `first_s` is when the first pod is bound.
    """

    pods: dict[str, PodState] = {}
    nodes: dict[str, dict[str, str]] = {}
    sent: dict[int, int] = {}
    forgotten: int = 0
    requested: dict[str, dict[str, int]] = {}
    first_s: int = 0
    has_completed: bool = False
    is_queued: bool = False
    is_started: bool = False
    is_ended: bool = False


class KubernetesJob(msgspec.Struct):
    """A job: the fields that describe it, its attempts that are not forgotten, and the number of the newest.

    `before` is what is added to the restarts that its controller counts: it may have begun to count anew.
    """

    namespace: str
    fields: dict[str, Any]
    attempt: int = 0
    before: int = 0
    over_s: int = 0
    attempts: dict[int, KubernetesAttempt] = {}


class SeenNode(msgspec.Struct):
    """A node, with the type of its newest event ("": none)."""

    facts: NodeFacts
    sent: str = ""


class ClusterState:
    """A position, taken apart. `read_s` is until when everything was read; a version is "" where a list is due."""

    def __init__(self, since_s: int) -> None:
        self.since_s = since_s
        self.read_s = since_s
        self.nodes_read_s = 0
        self.pods_version = ""
        self.nodes_version = ""
        self.jobs: dict[str, KubernetesJob] = {}
        self.nodes: dict[str, SeenNode] = {}
        self.job_of: dict[str, tuple[str, int]] = {}
        self.on_node: dict[str, set[str]] = {}  #: the pods that are bound to each node, by uid
        self.unshared: set[str] = set()  #: those of them of which `share_out` has still to say what they hold
        self.not_read: dict[
            str, list[str]
        ] = {}  #: pods and nodes that are not understood -> reason and words
        self._stored_jobs: dict[str, Any] = {}
        self._stored_nodes: dict[str, Any] = {}

    @classmethod
    def of(cls, position: Position | None, since_s: int) -> ClusterState:
        """The state of a position; `since_s` is used where there is none yet.

        Raises:
            TrainfareError: It is not one that this collector stored.
        """
        if position is None:
            return cls(since_s)
        try:
            found = cls(int(position["since_s"]))
            found.read_s = int(position["read_s"])
            found.nodes_read_s = int(position["nodes_read_s"])
            found.pods_version = str(position["pods_version"])
            found.nodes_version = str(position["nodes_version"])
            found._stored_jobs = dict(position["jobs"])
            found._stored_nodes = dict(position["nodes"])
            found.not_read = msgspec.convert(position.get("not_read", {}), dict[str, list[str]])
            found.jobs = msgspec.convert(found._stored_jobs, dict[str, KubernetesJob], str_keys=True)
            found.nodes = msgspec.convert(found._stored_nodes, dict[str, SeenNode], str_keys=True)
        except (KeyError, TypeError, ValueError):
            raise TrainfareError(
                "the position is not one of kubernetes'; remove its file to read the cluster from `since` on"
            ) from None
        for job_id, job in found.jobs.items():
            for number, attempt in job.attempts.items():
                found.job_of.update(dict.fromkeys(attempt.pods, (job_id, number)))
                for uid, pod in attempt.pods.items():
                    if pod.node:
                        found.on_node.setdefault(pod.node, set()).add(uid)
        return found

    def pod(self, uid: str) -> PodState:
        """A pod that is known."""
        job_id, number = self.job_of[uid]
        return self.jobs[job_id].attempts[number].pods[uid]

    def forget_pod(self, uid: str) -> None:
        """Forget a pod, but for its attempt."""
        node = self.pod(uid).node
        there = self.on_node.get(node, set())
        there.discard(uid)
        if not there:
            self.on_node.pop(node, None)
        self.unshared.discard(uid)
        del self.job_of[uid]

    def position(self) -> dict[str, Any]:
        """Copy it into a position to store; later polls do not change the copy."""
        return {
            "since_s": self.since_s,
            "read_s": self.read_s,
            "nodes_read_s": self.nodes_read_s,
            "pods_version": self.pods_version,
            "nodes_version": self.nodes_version,
            "not_read": dict(self.not_read),
            "jobs": dict(self._stored_jobs),
            "nodes": dict(self._stored_nodes),
        }

    def keep_jobs(self, job_ids: Iterable[str]) -> None:
        """Take what has changed of some jobs into the next position; forget those that are over for long."""
        for job_id in job_ids:
            job = self.jobs[job_id]
            self._forget_pods(job)
            self._stored_jobs[job_id] = msgspec.to_builtins(job, str_keys=True)

    def keep_nodes(self, names: Iterable[str]) -> None:
        """Take what has changed of some nodes into the next position."""
        for name in names:
            if name in self.nodes:
                self._stored_nodes[name] = msgspec.to_builtins(self.nodes[name], str_keys=True)
            else:
                self._stored_nodes.pop(name, None)

    def forget_jobs(self, now_s: int) -> None:
        """Forget jobs that have had no pods for long."""
        for job_id, job in list(self.jobs.items()):
            if not job.attempts and job.over_s < now_s - REMEMBERED_S:
                del self.jobs[job_id]
                self._stored_jobs.pop(job_id, None)

    def _forget_pods(self, job: KubernetesJob) -> None:
        """Forget attempts that are over and whose pods are gone."""
        for number, attempt in list(job.attempts.items()):
            if all(pod.is_gone and pod.end_s for pod in attempt.pods.values()):
                job.over_s = max([job.over_s, *(pod.end_s for pod in attempt.pods.values())])
                for uid in attempt.pods:
                    self.forget_pod(uid)
                del job.attempts[number]
