"""Makes `gpu` events of one exporter's GPUs: one event for each job that has any of them, one for those without a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streams.collect.allocations import Allocations, JobHolder
from streams.collect.collector import CollectedEvent
from streams.collect.dcgm.options import Options
from streams.collect.dcgm.text import GpuReading
from streams.topics import Topic

_NOBODY: Final = JobHolder("", 1)
_MEASURES: Final = ("sm_ratio", "tensor_ratio", "memory_used_mib", "power_w")
_RATIOS: Final = frozenset({"sm_ratio", "tensor_ratio"})


def samples_of(
    readings: Iterable[GpuReading], host: str, at_ms: int, options: Options, allocations: Allocations
) -> list[CollectedEvent]:
    """Return the events of one scrape; `host` names the node where the exporter does not."""
    of_holder: dict[tuple[str, JobHolder], list[GpuReading]] = {}
    for reading in readings:
        if reading.util_ratio is None:
            continue  # nothing is known about its use
        node = reading.node or host
        of_holder.setdefault((node, _holder(reading, node, allocations)), []).append(reading)
    return [_event(node, holder, found, at_ms, options) for (node, holder), found in of_holder.items()]


def _holder(reading: GpuReading, node: str, allocations: Allocations) -> JobHolder:
    """Return whose GPU it is: what the scheduler says counts more than labels, which come and go."""
    found = (allocations.of_pod(reading.pod) if reading.pod else None) or allocations.of_gpu(
        node, [name for name in (_gpu_id(reading), reading.uuid, reading.gpu) if name]
    )
    if found is not None:
        return found
    return JobHolder(reading.job, 1) if reading.job else _NOBODY


def _event(
    node: str, holder: JobHolder, readings: list[GpuReading], at_ms: int, options: Options
) -> CollectedEvent:
    value: dict[str, Any] = {
        **options.fields,
        "source": options.source,
        "time_ms": at_ms,
        "interval_ms": options.interval_ms,
        "node": node,
        "gpus": [_gpu_id(each) for each in readings],
        "util_ratio": [min(each.util_ratio or 0.0, 1.0) for each in readings],
    }
    if holder.job_id:
        value |= {"job_id": holder.job_id, "attempt": holder.attempt}
    models = {each.model for each in readings}
    if len(models) == 1 and "gpu_type" not in value and "" not in models:
        value["gpu_type"] = models.pop()
    for name in _MEASURES:
        found = [getattr(each, name) for each in readings]
        if None not in found:
            value[name] = [min(each, 1.0) for each in found] if name in _RATIOS else found
    return CollectedEvent(Topic.GPU, value)


def _gpu_id(reading: GpuReading) -> str:
    return f"{reading.gpu}.{reading.slice_id}" if reading.slice_id else reading.gpu
