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
        node = reading.labels.get("hostname") or reading.labels.get("Hostname") or host
        holder = _holder(reading, node, options, allocations)
        of_holder.setdefault((node, holder), []).append(reading)
    return [_event(node, holder, found, at_ms, options) for (node, holder), found in of_holder.items()]


def _holder(reading: GpuReading, node: str, options: Options, allocations: Allocations) -> JobHolder:
    """Return whose GPU it is: what the scheduler says counts more than labels, which come and go."""
    labels = reading.labels
    pod = f"{labels.get('namespace', '')}/{labels['pod']}" if labels.get("pod") else ""
    names = [name for name in (labels.get("UUID"), labels.get("gpu")) if name]
    found = (allocations.of_pod(pod) if pod else None) or allocations.of_gpu(node, names)
    if found is not None:
        return found
    job_id = labels.get(options.job_label, "")
    return JobHolder(job_id, 1) if job_id else _NOBODY


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
    models = {each.labels.get("modelName", "") for each in readings}
    if len(models) == 1 and "gpu_type" not in value and "" not in models:
        value["gpu_type"] = models.pop()
    for name in _MEASURES:
        found = [each.values.get(name) for each in readings]
        if all(each is not None for each in found):
            value[name] = [min(each or 0.0, 1.0) if name in _RATIOS else each for each in found]
    return CollectedEvent(Topic.GPU, value)


def _gpu_id(reading: GpuReading) -> str:
    gpu, slice_id = reading.labels.get("gpu") or reading.labels["UUID"], reading.labels.get("GPU_I_ID")
    return f"{gpu}.{slice_id}" if slice_id else gpu
