"""Generates what the fleet's exporters report: GPU samples of every node, and traffic of some jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams.demo.job import DemoJob, State
from streams.demo.nodes import PoolNodes
from streams.demo.records import Writer


def report_samples(
    out: Writer, time_ms: int, interval_ms: int, jobs: Iterable[DemoJob], pools: Mapping[str, PoolNodes]
) -> None:
    """Write one sample per node and job, and one per node with idle GPUs."""
    for job in jobs:
        held_ms = min(interval_ms, time_ms - job.held_from_ms)
        if not job.held or held_ms <= 0:
            continue
        # Without lifecycle events, the job is priced by the node's fields in its samples.
        fields = pools[job.spec.pool].pool.price_fields if job.spec.metered else {}
        for node, gpus in job.held.items():
            out.gpu(
                time_ms,
                node,
                held_ms,
                [str(gpu) for gpu in gpus],
                job.util_ratios(time_ms, gpus),
                job_id=job.spec.job_id,
                attempt=job.attempt,
                **fields,
            )
    for pool in pools.values():
        for node, gpus in pool.idle():
            out.gpu(time_ms, node, interval_ms, [str(gpu) for gpu in gpus], [0.0] * len(gpus))


def report_traffic(
    out: Writer, time_ms: int, interval_ms: int, jobs: Iterable[DemoJob], pools: Mapping[str, PoolNodes]
) -> None:
    """Write network traffic, requests and storage of the jobs in the interval."""
    minutes = interval_ms / 60_000
    for job in jobs:
        traffic = job.spec.traffic
        if traffic is None or job.state is not State.running:
            continue
        where: dict[str, object] = {"cloud": "aws", "region": pools[job.spec.pool].pool.region}
        name, attempt = job.spec.job_id, job.attempt
        if traffic.egress_bytes_per_min:
            moved = job.about(int(traffic.egress_bytes_per_min * minutes))
            path = {"path": traffic.path, "direction": "egress"}
            to = {"dst_region": "eu-west-1"} if traffic.path == "cross_region" else {}
            out.network(time_ms, name, attempt, interval_ms, moved, **path, **where, **to)
        for op, per_min in (("read", traffic.reads_per_min), ("write", traffic.writes_per_min)):
            if per_min:
                requests = job.about(int(per_min * minutes))
                out.storage(
                    time_ms,
                    name,
                    attempt,
                    interval_ms,
                    op,
                    requests=requests,
                    bytes=requests * 2**18,
                    **where,
                )
        if traffic.stored_bytes:
            out.storage(time_ms, name, attempt, interval_ms, "stored", bytes=traffic.stored_bytes, **where)
