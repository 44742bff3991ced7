"""Reads what nvidia-smi answers to its queries: lines of values with commas, without units.

It must not trust them: a line of another form is left out and said.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from typing import Final

from schemas.escaping import visible
from streams.collect.gpu_samples import GpuReading

_FORM: Final = "--format=csv,noheader,nounits"
GPU_QUERY: Final = ("--query-gpu=index,uuid,name,utilization.gpu,memory.used,power.draw", _FORM)
PROCESS_QUERY: Final = ("--query-compute-apps=gpu_uuid,pid", _FORM)
_GPU_COLUMNS: Final = 6
_PROCESS_COLUMNS: Final = 2
#: More lines than any node has GPUs or processes.
_LINES_AT_MOST: Final = 10_000


def read_gpus(answer: bytes, faults: list[str]) -> list[GpuReading]:
    """Return the GPUs that report their utilization; what does not is added to `faults`.

    A value that a GPU does not have is `[N/A]`, `[Not Supported]`, `[Unknown Error]`...
    """
    found = []
    for index, uuid, name, util_percent, memory_used_mib, power_w in _rows(answer, _GPU_COLUMNS, faults):
        util = _number(util_percent)
        if util is None:
            said = f"GPU {visible(index[:50])} ({visible(name[:100])}): its utilization is {visible(util_percent[:50])}"
            faults.append(f"{said}; MIG instances are sampled by dcgm and the SDK")
            continue
        found.append(
            GpuReading(
                gpu=index or uuid,
                uuid=uuid,
                slice_id="",
                node="",
                pod="",
                model=name,
                job="",
                util_ratio=util / 100,
                sm_ratio=None,
                tensor_ratio=None,
                memory_used_mib=_number(memory_used_mib),
                power_w=_number(power_w),
            )
        )
    return found


def read_processes(answer: bytes, faults: list[str]) -> dict[str, list[int]]:
    """Return the processes that compute, by the UUID of their GPU."""
    found: dict[str, list[int]] = {}
    for uuid, pid in _rows(answer, _PROCESS_COLUMNS, faults):
        if pid.isascii() and pid.isdigit():
            found.setdefault(uuid, []).append(int(pid))
    return found


def _rows(answer: bytes, columns: int, faults: list[str]) -> Iterator[Sequence[str]]:
    lines = answer.decode("utf-8", "replace").splitlines()[:_LINES_AT_MOST]
    for line in lines:
        if not line.strip():
            continue
        row = next(csv.reader([line], skipinitialspace=True), [])
        if len(row) == columns:
            yield [each.strip() for each in row]
        else:
            faults.append(f"expected {columns} values, got {visible(line[:200])}")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
