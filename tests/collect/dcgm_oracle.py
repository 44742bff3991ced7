"""A slow, obvious reader of exporters' text, by regular expressions: what the fast one must agree with."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from streams.collect.gpu_samples import GpuReading

#: Metrics of one meaning, the better ones first, with divisors.
_MEASURES: Final = {
    "util_ratio": {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1,
        "gpu_gfx_activity": 100,
        "amd_gpu_gfx_activity": 100,
        "amd_gpu_use_percent": 100,
    },
    "sm_ratio": {"DCGM_FI_PROF_SM_ACTIVE": 1},
    "tensor_ratio": {
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1,
        "gpu_prof_tensor_active_percent": 100,
        "amd_gpu_prof_tensor_active_percent": 100,
    },
    "memory_used_mib": {"DCGM_FI_DEV_FB_USED": 1, "gpu_used_vram": 1, "amd_gpu_used_vram": 1},
    "power_w": {
        "DCGM_FI_DEV_POWER_USAGE": 1,
        "gpu_package_power": 1,
        "amd_gpu_package_power": 1,
        "gpu_power_usage": 1,
        "amd_gpu_power_usage": 1,
        "gpu_average_package_power": 1,
        "amd_gpu_average_package_power": 1,
    },
}
_BUSY: Final = "DCGM_FI_DEV_GPU_UTIL"
METRICS: Final = (*(name for metrics in _MEASURES.values() for name in metrics), _BUSY)
_LABEL: Final = rb'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\\n]|\\[^\n])*)"'
_LABELS: Final = rb"[ \t]*(?:%b[ \t]*(?:,[ \t]*|(?=\})))*" % _LABEL.replace(b"(", b"(?:").replace(
    b"?:?:", b"?:"
)
_NUMBER: Final = rb"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![^ \t\n\r\f\v])"
_LINE: Final = re.compile(
    rb"(%b)\{(%b)\}(?:[ \t]+(%b))?" % (b"|".join(name.encode() for name in METRICS), _LABELS, _NUMBER)
)


def read(text: bytes, job_id_label: str) -> list[GpuReading]:
    """Return the GPUs that are named, also those without a value that can be read."""
    sets: dict[bytes, dict[str, float]] = {}
    for line in text.split(b"\n"):
        match = _LINE.match(line)
        if match is None:
            continue
        values = sets.setdefault(match[2], {})
        if match[3] is not None and (value := _value(match[3].decode())) is not None:
            values[match[1].decode()] = value
    readings: list[GpuReading] = []
    busy: dict[tuple[str, str, str], float] = {}
    percents: list[float | None] = []
    for labels_text, values in sets.items():
        labels: dict[str, str] = {}
        for name, value_text in re.findall(_LABEL, labels_text):
            # The first one that is not empty counts.
            labels[name.decode()] = labels.get(name.decode()) or _unescaped(
                value_text.decode("utf-8", "replace")
            )
        reading = _reading(labels, values, job_id_label)
        if reading.gpu:
            readings.append(reading)
            percents.append(values.get(_BUSY))
    nodes = {each.node for each in readings} - {""}
    found: dict[tuple[str, str, str], GpuReading] = {}
    for reading, percent in zip(readings, percents, strict=True):
        key = reading.node or (min(nodes) if len(nodes) == 1 else ""), reading.gpu, reading.slice_id
        first = found.setdefault(key, reading)
        changed = {name: getattr(reading, name) for name in _MEASURES if getattr(reading, name) is not None}
        whose = {name: getattr(first, name) or getattr(reading, name) for name in ("node", "pod", "job")}
        found[key] = first._replace(**changed, **whose)
        if percent is not None:
            busy[key] = percent / 100
    for key, ratio in busy.items():
        gpu = found[key]
        if not gpu.slice_id and gpu.util_ratio is None:
            found[key] = gpu._replace(util_ratio=ratio)
        elif not gpu.slice_id and gpu.util_ratio == 0 and 0 < ratio <= 1.02:
            said = f"DCGM_FI_PROF_GR_ENGINE_ACTIVE is 0, and DCGM_FI_DEV_GPU_UTIL {ratio:.0%}, which is taken"
            found[key] = gpu._replace(util_ratio=ratio, doubt=said)
    return list(found.values())


def _value(text: str) -> float | None:
    """Numbers of at most 18 digits that are no blank."""
    exact = Decimal(text).as_tuple()
    value = float(text)
    plain = len(exact.digits) <= 18 and abs(int(exact.exponent)) <= 22
    return value if plain and value < 1e15 else None


def _reading(labels: dict[str, str], values: dict[str, float], job_id_label: str) -> GpuReading:
    def label(*names: str) -> str:
        return next((labels[name] for name in labels if name in names and labels[name]), "")

    measures = {
        name: next(
            (values[metric] / divisor for metric, divisor in metrics.items() if metric in values), None
        )
        for name, metrics in _MEASURES.items()
    }
    uuid, amd_gpu = label("UUID", "gpu_uuid"), label("gpu_id", "gpu_use_percent")
    partition = label("gpu_partition_id")
    return GpuReading(
        gpu=label("gpu") or amd_gpu or uuid,
        uuid=uuid,
        slice_id=label("GPU_I_ID") or ("" if partition in ("0", "NA") else partition),
        node=label("hostname", "Hostname"),
        pod=_pod(label("exported_namespace") or label("namespace"), label("exported_pod") or label("pod")),
        model=label("modelName", "card_series", "productname"),
        job=label(job_id_label) or (label("job_id") if job_id_label == "hpc_job" and amd_gpu else ""),
        util_ratio=measures["util_ratio"],
        sm_ratio=measures["sm_ratio"],
        tensor_ratio=measures["tensor_ratio"],
        memory_used_mib=measures["memory_used_mib"],
        power_w=measures["power_w"],
    )


def _pod(namespace: str, pod: str) -> str:
    return f"{namespace}/{pod}" if pod else ""


def _unescaped(value: str) -> str:
    return re.sub(r'\\([\\n"])', lambda each: "\n" if each[1] == "n" else each[1], value)
