"""Makes `gpu` events of a node's GPUs: one event for each job that has any of them, one for those without a job."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import Field

from streams.accounts.account import Account
from streams.collect.allocations import Allocations, JobHolder, read_allocations
from streams.collect.collector import CollectedEvent
from streams.collect.options import CollectorOptions, PriceFields
from streams.topics import Topic

_NOBODY: Final = JobHolder("", 1)
_MEASURES: Final = ("sm_ratio", "tensor_ratio", "memory_used_mib", "power_w")
#: What no GPU has, with room for those to come. Drivers report garbage: blanks of DCGM (2147483632), NVIDIA/DCGM#199.
_MOST: Final = {
    "util_ratio": 1.02,  # rounded upwards; what is above 1 is 1
    "sm_ratio": 1.02,
    "tensor_ratio": 1.02,
    "memory_used_mib": 2.0**20,
    "power_w": 10_000.0,
}
_RATIOS: Final = frozenset({"sm_ratio", "tensor_ratio"})
OUT_OF_RANGE: Final = "out_of_range"


class SampleOptions(CollectorOptions):
    """What the tables of all collectors of samples have in common."""

    allocations_file: Path | None = Field(
        default=None, description="File of allocations that a scheduler's collector writes."
    )
    price_fields: PriceFields = Field(
        default={}, description="Price fields of all samples, e.g. cluster, region."
    )

    def gpu_allocations(self) -> Allocations:
        """Who holds which GPUs, now and a while ago; nobody does without a file.

        Raises:
            SourceUnavailableError: The file cannot be read.
        """
        return Allocations(()) if self.allocations_file is None else read_allocations(self.allocations_file)


class GpuReading(NamedTuple):
    """One GPU, or one slice of it, in one look; what its source does not tell is empty, or None."""

    gpu: str  # its index, else its UUID
    uuid: str
    slice_id: str  # of NVIDIA's MIG or AMD's partitions
    node: str
    pod: str  # namespace/name
    model: str
    job: str
    util_ratio: float | None  # the share of time in which it did work
    sm_ratio: float | None
    tensor_ratio: float | None
    memory_used_mib: float | None
    power_w: float | None
    doubt: str = ""  # what its values contradict each other in


def samples_of(
    readings: Iterable[GpuReading],
    host: str,
    at_ms: int,
    options: SampleOptions,
    source: str,
    allocations: Allocations,
    account: Account,
) -> list[CollectedEvent]:
    """The events of one look, of the time `at_ms`; `host` names the node where a reading does not.

    Values that no GPU has are left out; a GPU without a utilization is not sampled. Both are said in `account`.
    """
    of_holder: dict[tuple[str, JobHolder], list[GpuReading]] = {}
    readings = list(readings)
    nodes = _nodes_of_pods(readings, allocations, (at_ms - options.interval_ms, at_ms))
    for given in readings:
        reading, odd = _plausible(given)
        node = nodes.get(reading.node) or reading.node or host
        named = f"{node[:100]}: GPU {_gpu_id(reading)[:100]}"
        if odd:
            account.not_understood(OUT_OF_RANGE, f"{named}: {odd}")
        elif reading.doubt:
            account.not_understood("profiling_stopped", f"{named}: {reading.doubt}")
        elif reading.util_ratio is None:
            account.not_understood("no_utilization", f"{named} ({reading.model[:100]}) reports none")
        else:
            account.metered()
        if reading.util_ratio is None:
            continue  # nothing is known about its use
        holder = _holder(reading, node, allocations, (at_ms - options.interval_ms, at_ms))
        of_holder.setdefault((node, holder), []).append(reading)
    return [
        _event(node, holder, found, at_ms, options, source) for (node, holder), found in of_holder.items()
    ]


def _nodes_of_pods(
    readings: Iterable[GpuReading], allocations: Allocations, interval_ms: tuple[int, int]
) -> dict[str, str]:
    """What readings call their node -> the node that their pods are on.

    An exporter in a pod of its own calls its node by that pod's name (NVIDIA/dcgm-exporter#78).
    """
    found: dict[str, set[str]] = {}
    for each in readings:
        if each.pod and (node := allocations.node_of_pod(each.pod, *interval_ms)):
            found.setdefault(each.node, set()).add(node)
    return {called: nodes.pop() for called, nodes in found.items() if len(nodes) == 1}


def _plausible(reading: GpuReading) -> tuple[GpuReading, str]:
    """A reading without the values that no GPU has, and what these are."""
    odd = {
        name: value
        for name, most in _MOST.items()
        for value in [getattr(reading, name)]
        if value is not None and value > most
    }
    if not odd:
        return reading, ""
    said = ", ".join(f"{name} {value:g}" for name, value in odd.items())
    nothing: dict[str, Any] = dict.fromkeys(odd)
    return reading._replace(**nothing), f"{said} is more than any GPU has"


def _holder(
    reading: GpuReading, node: str, allocations: Allocations, interval_ms: tuple[int, int]
) -> JobHolder:
    """Return whose GPU it was: what the scheduler says counts more than labels, which come and go."""
    found = (allocations.of_pod(reading.pod, *interval_ms) if reading.pod else None) or allocations.of_gpu(
        node, [name for name in (_gpu_id(reading), reading.uuid, reading.gpu) if name], *interval_ms
    )
    if found is not None:
        return found
    return JobHolder(reading.job, 1) if reading.job else _NOBODY


def _event(
    node: str,
    holder: JobHolder,
    readings: list[GpuReading],
    at_ms: int,
    options: SampleOptions,
    source: str,
) -> CollectedEvent:
    value: dict[str, Any] = {
        **options.price_fields,
        "source": source,
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
