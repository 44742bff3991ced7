"""Reads what nvidia-smi answers: lines of values with commas, without units, and a report with a line for each value."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

from streams.accounts.account import Account
from streams.collect.gpu_samples import GpuReading

_FORM: Final = "--format=csv,noheader,nounits"
GPU_QUERY: Final = ("--query-gpu=index,uuid,name,utilization.gpu,memory.used,power.draw", _FORM)
#: No query of single values has the mean of a GPU's last readings.
REPORT_QUERY: Final = ("-q", "-d", "UTILIZATION")
PROCESS_QUERY: Final = ("--query-compute-apps=gpu_uuid,pid", _FORM)
_GPU_COLUMNS: Final = 6
_PROCESS_COLUMNS: Final = 2
#: More lines than any node has GPUs or processes.
_LINES_AT_MOST: Final = 10_000
_OF_A_GPU: Final = "GPU "
_MEANS: Final = "GPU Utilization Samples"
_MEAN: Final = "Avg"
_HEADING_DEPTH: Final = 4


def read_gpus(answer: bytes, means: Sequence[float | None], account: Account) -> list[GpuReading]:
    """The GPUs that report their utilization; what does not is said in `account`.

    `means`: of `read_means`. Where a GPU has none, or they are of another number of GPUs, its last reading is taken.
    A value that a GPU does not have is `[N/A]`, `[Not Supported]`, `[Unknown Error]`...
    """
    found = []
    rows = list(_rows(answer, _GPU_COLUMNS, account))
    if means and len(means) != len(rows):
        said = f"{len(rows)} GPUs and {len(means)} in the report of their utilization: the last readings are taken"
        account.not_understood("mean_missing", said)
        means = ()
    for row, mean in zip(rows, means or repeat(None), strict=False):
        index, uuid, name, util_percent, memory_used_mib, power_w = row
        util = _number(util_percent) if mean is None else mean
        if util is None:
            said = f"GPU {index[:50]} ({name[:100]}): its utilization is {util_percent[:50]}"
            account.not_understood("no_utilization", f"{said}; MIG instances are sampled by dcgm and the SDK")
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


def read_names(answer: bytes, account: Account) -> list[str]:
    """The names of all GPUs of `GPU_QUERY`, whatever else they report."""
    return [row[2] for row in _rows(answer, _GPU_COLUMNS, account)]


def read_means(report: bytes) -> list[float | None]:
    """The mean utilization (percent) of each GPU over its last readings, of 14 s on an H100; None: it has none.

    GPUs come in the order of their indexes.
    """
    found: list[float | None] = []
    heading = ""
    for line in report.decode("utf-8", "replace").splitlines()[:_LINES_AT_MOST]:
        name, _, value = line.partition(":")
        depth = len(line) - len(line.lstrip())
        if line.startswith(_OF_A_GPU):
            found.append(None)
        elif depth == _HEADING_DEPTH:
            heading = name.strip()
        elif found and depth > _HEADING_DEPTH and heading == _MEANS and name.strip() == _MEAN:
            found[-1] = _number(value.rstrip(" %"))
    return found


def read_processes(answer: bytes, account: Account) -> dict[str, list[int]]:
    """The processes that compute, by the UUID of their GPU."""
    found: dict[str, list[int]] = {}
    for uuid, pid in _rows(answer, _PROCESS_COLUMNS, account):
        if pid.isascii() and pid.isdigit():
            found.setdefault(uuid, []).append(int(pid))
    return found


def _rows(answer: bytes, columns: int, account: Account) -> Iterator[Sequence[str]]:
    lines = answer.decode("utf-8", "replace").splitlines()[:_LINES_AT_MOST]
    for line in lines:
        if not line.strip():
            continue
        row = next(csv.reader([line], skipinitialspace=True), [])
        if len(row) == columns:
            yield [each.strip() for each in row]
        else:
            account.not_understood("malformed", f"expected {columns} values, got {line[:200]}")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
