"""`trainfare collect kubernetes`: lists and watches pods and nodes, and makes the lifecycle events of jobs.

The first poll lists; each later one watches for `interval_s` from where the last one stopped. Where the server has no
history from there, it lists again: what is missing then has ended in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from schemas.durations import DAY_S
from streams.clock import SystemClock
from streams.collect.allocations import ALL_GPUS, Allocation, with_past, write_allocations
from streams.collect.collector import EventBatch, Position
from streams.collect.kubernetes.api import ApiServer, login_of
from streams.collect.kubernetes.options import Options
from streams.collect.kubernetes.owner_reader import OwnerReader
from streams.collect.kubernetes.poll import Api, Poll
from streams.collect.kubernetes.state import ClusterState, PodState


class KubernetesCollector:
    """The pods and nodes of one cluster."""

    name = "kubernetes"

    def __init__(self, options: Options, api: Api) -> None:
        self._options = options
        self._api = api
        self._owners = OwnerReader(options, api)
        namespace = quote(options.namespace, safe="")
        self._pods = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._query = {"labelSelector": options.label_selector} if options.label_selector else {}

    @property
    def interval_ms(self) -> int:
        """How long a poll lasts: the next one follows at once."""
        return self._options.interval_ms

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what is new.

        Raises:
            SourceUnavailableError: The API server cannot be read; what was read before is yielded.
        """
        now_s = now_ms // 1000
        state = ClusterState.of(position, self._options.begin_ms(now_ms) // 1000)
        if now_s < state.since_s:
            return
        poll = Poll(self._options, self._api, state, self._owners, now_s)
        if self._options.include_nodes:
            yield from poll.nodes()
        yield from poll.pods(self._pods, self._query)
        if self._options.allocations_output_file is not None:
            path = self._options.allocations_output_file
            write_allocations(path, with_past(path, _allocations(state, now_s - DAY_S), {}, now_ms))
        state.read_s = now_s
        state.forget_jobs(now_s)
        yield EventBatch([], state.position(), poll.accounted())


def _allocations(state: ClusterState, after_s: int) -> list[Allocation]:
    """Which pods hold devices, or held them until after a time."""
    return [
        Allocation(
            pod.node,
            job_id,
            number,
            (ALL_GPUS,) if _has_whole_node(pod, state) else (),
            pod=f"{job.namespace}/{pod.name}",
            addresses=pod.addresses,
            from_ms=pod.bound_s * 1000,
            until_ms=pod.end_s * 1000 if pod.end_s else None,
        )
        for job_id, job in state.jobs.items()
        for number, attempt in job.attempts.items()
        for pod in attempt.pods.values()
        if pod.bound_s and pod.devices and (not pod.end_s or pod.end_s > after_s)
    ]


def _has_whole_node(pod: PodState, state: ClusterState) -> bool:
    """Whether a pod holds all GPUs of its node, as far as nodes are read: samples that name no pod are its."""
    node = state.nodes.get(pod.node)
    return node is not None and 0 < node.facts.gpu_milli == pod.gpu_milli


def open_collector(options: Options) -> KubernetesCollector:
    """The collector.

    Raises:
        WrongUseError: No API server is named, and it does not run in a cluster.
    """
    clock = SystemClock()
    api = ApiServer(
        login_of(options), clock, timeout_s=options.timeout_s, object_bytes=options.max_object_kib * 1024
    )
    return KubernetesCollector(options, api)
