"""Reads the Prometheus text of exporters of GPUs: for each GPU its names, its pod, and what a sample is made of.

Text of an exporter is untrusted: what does not parse is skipped, its size is limited by the caller.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from streams.collect.dcgm.lines import TOO_MANY, Names, scan_metrics
from streams.collect.gpu_samples import GpuReading
from streams.engine.kernels.arrays import F64, I64

#: dcgm-exporter's label of the scheduler's job; AMD's exporter has the same as `job_id`.
DEFAULT_JOB_LABEL: Final = "hpc_job"

#: DCGM writes 2^63 - n and the like for values that it does not have.
_BLANK_FROM: Final = 1e15
#: 16 GPUs with 7 slices, each shared by 10 pods.
_SETS_AT_MOST: Final = 2_048
_ESCAPED: Final = re.compile(r'\\([\\n"])')

#: What a sample is made of: the metrics that report it, the better ones first, and what their values are divided by. They
#: are dcgm-exporter's, then those of AMD's Device Metrics Exporter (its prefix is a setting) and of its SMI exporter.
_MEASURES: Final = (
    # An average over the exporter's interval.
    (
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1),
        ("gpu_gfx_activity", 100),
        ("amd_gpu_gfx_activity", 100),
        ("amd_gpu_use_percent", 100),
    ),
    (("DCGM_FI_PROF_SM_ACTIVE", 1),),
    (
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1),
        ("gpu_prof_tensor_active_percent", 100),
        ("amd_gpu_prof_tensor_active_percent", 100),
    ),
    (("DCGM_FI_DEV_FB_USED", 1), ("gpu_used_vram", 1), ("amd_gpu_used_vram", 1)),
    (
        ("DCGM_FI_DEV_POWER_USAGE", 1),
        ("gpu_package_power", 1),
        ("amd_gpu_package_power", 1),
        ("gpu_power_usage", 1),
        ("amd_gpu_power_usage", 1),
        ("gpu_average_package_power", 1),
        ("amd_gpu_average_package_power", 1),
    ),
    # Counts any kernel at all.
    (("DCGM_FI_DEV_GPU_UTIL", 100),),
)
#: The fields of a reading that the measures are, but the last one.
_VALUES: Final = ("util_ratio", "sm_ratio", "tensor_ratio", "memory_used_mib", "power_w")
#: A percentage above is garbage.
_BUSY_MOST: Final = 1.02
#: Labels of one meaning, in the order in which `TextReader` takes them apart; the last meaning is the job.
_LABELS: Final = (
    ("gpu",),
    ("gpu_id", "gpu_use_percent"),
    ("UUID", "gpu_uuid"),
    ("GPU_I_ID",),
    ("gpu_partition_id",),
    ("hostname", "Hostname"),
    ("namespace",),
    ("pod",),
    ("modelName", "card_series", "productname"),
    # What a Prometheus that adds labels of its own calls those of the exporter: then `pod` is the exporter's own.
    ("exported_namespace",),
    ("exported_pod",),
    ("job_id",),
)
#: Partitions of AMD that are a whole GPU, or the one that reports for it.
_WHOLE: Final = frozenset({"", "0", "NA"})


class _Buffers(threading.local):
    """What a thread's scans fill."""

    def __init__(self) -> None:
        self.spans: I64 = np.zeros((_SETS_AT_MOST, 2 + 2 * (len(_LABELS) + 1)), np.int64)
        self.values: F64 = np.zeros((_SETS_AT_MOST, len(_MEASURES)), np.float64)
        self.ranks: I64 = np.zeros((_SETS_AT_MOST, len(_MEASURES)), np.int64)


class TextReader:
    """Reads one text after the other; threads may share it."""

    def __init__(self, job_id_label: str) -> None:
        """`job_id_label`: the label with a job's id; empty: none."""
        listed = [*_LABELS, (job_id_label,)]
        if any(job_id_label in names for names in _LABELS):
            # It has a meaning already, and is the job as well.
            listed[-1] = ("",)
        self._job_at = next(k for k, names in enumerate([*_LABELS, (job_id_label,)]) if job_id_label in names)
        self._has_amd_job = job_id_label == DEFAULT_JOB_LABEL
        self._labels = _table(listed)
        self._metrics = _table([[name for name, _ in each] for each in _MEASURES])
        self._divisors: F64 = np.array([divisor for each in _MEASURES for _, divisor in each], np.float64)
        self._buffers = _Buffers()

    def read(self, text: bytes) -> list[GpuReading]:
        """The GPUs that an exporter names, or several do that are scraped by one address, in their order.

        Raises:
            ValueError: It names more than any exporter does.
        """
        if not text:
            return []
        spans, values, ranks = self._buffers.spans, self._buffers.values, self._buffers.ranks
        count = scan_metrics(
            np.frombuffer(text, np.uint8),
            self._metrics,
            self._labels,
            self._divisors,
            _BLANK_FROM,
            spans,
            values,
            ranks,
        )
        if count == TOO_MANY:
            raise ValueError(f"names over {_SETS_AT_MOST} GPUs")
        rows = zip(spans[:count].tolist(), values[:count].tolist(), strict=True)
        readings = [
            (reading, row[-1])
            for places, row in rows
            if (reading := self._reading(_texts(text, places), row)) is not None
        ]
        nodes = {reading.node for reading, _ in readings if reading.node}
        only = next(iter(nodes)) if len(nodes) == 1 else ""
        found: dict[tuple[str, str, str], GpuReading] = {}
        busy: dict[tuple[str, str, str], float] = {}
        for reading, ratio in readings:
            key = reading.node or only, reading.gpu, reading.slice_id
            # A GPU that several pods share is there once for each.
            found[key] = _merged(found[key], reading) if key in found else reading
            if not math.isnan(ratio):
                busy[key] = ratio
        return [_with_busy(reading, busy[key]) if key in busy else reading for key, reading in found.items()]

    def _reading(self, texts: Sequence[str], values: Sequence[float]) -> GpuReading | None:
        """What one label set says; None if it names no GPU."""
        (
            gpu,
            amd_gpu,
            uuid,
            slice_id,
            partition,
            node,
            namespace,
            pod,
            model,
            outer_namespace,
            outer_pod,
            amd_job,
            _,
        ) = texts
        gpu = gpu or amd_gpu or uuid
        if not gpu:
            return None
        job = texts[self._job_at]
        if not job and self._has_amd_job and amd_gpu:
            job = amd_job
        util_ratio, sm_ratio, tensor_ratio, memory_used_mib, power_w = [
            None if math.isnan(value) else value for value in values[:-1]
        ]
        return GpuReading(
            gpu,
            uuid,
            slice_id or ("" if partition in _WHOLE else partition),
            node,
            f"{outer_namespace or namespace}/{outer_pod or pod}" if outer_pod or pod else "",
            model,
            job,
            util_ratio,
            sm_ratio,
            tensor_ratio,
            memory_used_mib,
            power_w,
        )


def _merged(first: GpuReading, later: GpuReading) -> GpuReading:
    """The first reading of a GPU with the values that later lines have, and whose it is by the first that says so."""
    values = {name: value for name in _VALUES if (value := getattr(later, name)) is not None}
    return first._replace(
        node=first.node or later.node, pod=first.pod or later.pod, job=first.job or later.job, **values
    )


def _with_busy(reading: GpuReading, ratio: float) -> GpuReading:
    """A reading of a GPU with the share of time in which any kernel ran, which says less than its own utilization.

    That of a MIG instance is always 0 (NVIDIA/dcgm-exporter#216). Where the utilization is 0 meanwhile, the profiling module
    has stopped (NVIDIA/dcgm-exporter#662).
    """
    if reading.slice_id:
        return reading
    if reading.util_ratio is None:
        return reading._replace(util_ratio=ratio)
    if reading.util_ratio or not 0 < ratio <= _BUSY_MOST:
        return reading
    said = f"DCGM_FI_PROF_GR_ENGINE_ACTIVE is 0, and DCGM_FI_DEV_GPU_UTIL {ratio:.0%}, which is taken"
    return reading._replace(util_ratio=ratio, doubt=said)


def _texts(text: bytes, spans: Sequence[int]) -> list[str]:
    """What stands at the spans in that of the first one."""
    part = text[spans[0] : spans[1]]
    places = zip(spans[2::2], spans[3::2], strict=True)
    if part.isascii() and b"\\" not in part:
        whole = part.decode()
        return [whole[low:high] for low, high in places]
    return [_unescaped(part[low:high].decode("utf-8", "replace")) for low, high in places]


def _unescaped(value: str) -> str:
    return _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], value) if "\\" in value else value


def _table(names: Sequence[Sequence[str]]) -> Names:
    """Names by meaning as a kernel takes them."""
    each = [(name.encode(), meaning) for meaning, same in enumerate(names) for name in same]
    return Names(
        np.frombuffer(b"".join(name for name, _ in each), np.uint8),
        np.cumsum([len(name) for name, _ in each], dtype=np.int64),
        np.array([meaning for _, meaning in each], np.int64),
    )
