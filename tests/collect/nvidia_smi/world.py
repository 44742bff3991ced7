"""A node with nvidia-smi, run as a program, and the allocations of a scheduler.

Its lines are made by hand, of several GPUs, in the form of those that drivers 590.48 and 595.71 answered on H100, H200 and
RTX 4080, which others have published; they are not those lines. What one real GPU answers is in `recorded`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from streams.collect.allocations import Allocation
from streams.collect.collector import Collector
from streams.collect.nvidia_smi.answers import GPU_QUERY, PROCESS_QUERY, REPORT_QUERY
from streams.collect.nvidia_smi.collector import open_collector
from streams.collect.nvidia_smi.options import Options

T0_MS: Final = 1_790_000_000_000 // 15_000 * 15_000
INTERVAL_MS: Final = 15_000


def gpus(state: int) -> str:
    """Four GPUs: the third does not tell its power, the last one is cut into slices."""
    name = "NVIDIA H100 80GB HBM3"
    return (
        f"0, GPU-7a000000-0000-0000-0000-000000000000, {name}, {(state * 10) % 101}, 69956, 433.78\n"
        f"1, GPU-7a000000-0000-0000-0000-000000000001, {name}, 100, {1000 + state}, 700.00\n"
        f"2, GPU-7a000000-0000-0000-0000-000000000002, {name}, 0, 59, [N/A]\n"
        f"3, GPU-7a000000-0000-0000-0000-000000000003, {name}, [N/A], 11125, 447.35\n"
    )


def report(state: int, gpus: int = 4) -> str:
    """The report of their utilization: the mean of the first one lies below its last reading."""
    means = [f"{state * 10 % 101 // 2} %", "100 %", "0 %", "N/A"]
    return (
        "\n==============NVSMI LOG==============\n\nDriver Version : 595.71\nAttached GPUs : 4\n"
        + "".join(
            f"GPU 00000000:0{place}:00.0\n    Utilization\n        GPU : 77 %\n    GPU Utilization Samples\n"
            f"        Duration : 14.00 sec\n        Max : 99 %\n        Avg : {mean}\n"
            "    Memory Utilization Samples\n        Avg : 11 %\n"
            for place, mean in enumerate(means[:gpus])
        )
    )


class NvidiaSmiWorld:
    """The first GPU belongs to one job, the second to another's second attempt, the third to nobody."""

    states = 6

    def __init__(self, directory: Path) -> None:
        self._answers = directory / "answers.json"
        self._look: dict[str, Any] = {"is_away": False, PROCESS_QUERY[0]: ""}
        self.allocations = directory / "allocations.json"
        held = [
            Allocation("n1", "train-a", gpus=("0",)),
            Allocation("n1", "train-b", attempt=2, gpus=("GPU-7a000000-0000-0000-0000-000000000001",)),
        ]
        self.allocations.write_bytes(msgspec.json.encode({"allocations": held}))

    def options(self, **others: Any) -> Options:
        """Return options for the program that stands for nvidia-smi."""
        fake = [sys.executable, "-I", "-S", str(Path(__file__).with_name("fake.py")), str(self._answers)]
        given = {"command": fake, "node": "n1", "allocations_file": self.allocations, "timeout_s": 60}
        return Options(**{**given, **others})

    def collector(self) -> Collector:
        return open_collector(self.options())

    def turn(self, state: int) -> int:
        self._change(**{GPU_QUERY[0]: gpus(state), REPORT_QUERY[0]: report(state)})
        return T0_MS + state * INTERVAL_MS

    def entries(self, state: int) -> int:
        return len(gpus(state).splitlines())

    def go_away(self) -> None:
        self._change(is_away=True)

    def come_back(self) -> None:
        self._change(is_away=False)

    def close(self) -> None:
        pass

    def _change(self, **parts: Any) -> None:
        self._look.update(parts)
        self._answers.write_text(json.dumps(self._look), encoding="utf-8")
