"""What the text of dcgm-exporter costs: CPU seconds for the GPUs of many nodes, on one thread.

`python -m loadtest.dcgm_text --nodes 100000` prints one JSON object and exits with 1 if reading takes 10 s or
more. The texts of some hundred nodes are read again and again: what a core has to look at, not what fits into
its caches.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from streams.accounts.account import Account
from streams.collect.allocations import Allocation, Allocations
from streams.collect.dcgm.options import Options
from streams.collect.dcgm.text import TextReader
from streams.collect.gpu_samples import samples_of

LIMIT_S: Final = 10.0
_DISTINCT: Final = 400


class Counter(NamedTuple):
    """A line of the exporter's list of counters; `value` makes what a busy GPU reports."""

    name: str
    kind: str
    about: str
    value: Callable[[random.Random], str]


def _whole(low: int, high: int) -> Callable[[random.Random], str]:
    return lambda rng: str(rng.randint(low, high))


def _real(low: float, high: float) -> Callable[[random.Random], str]:
    return lambda rng: f"{rng.uniform(low, high):f}"


#: The counters of etc/default-counters.csv, in the order in which the exporter writes them: that of their numbers.
COUNTERS: Final = (
    Counter("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", _whole(345, 1980)),
    Counter("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", _whole(1593, 2619)),
    Counter("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", _whole(30, 90)),
    Counter("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", _whole(25, 80)),
    Counter("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", _real(70, 700)),
    Counter(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        _whole(10**9, 10**14),
    ),
    Counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", _whole(0, 0)),
    Counter("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", _whole(0, 100)),
    Counter("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", _whole(0, 100)),
    Counter("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", _whole(0, 0)),
    Counter("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", _whole(0, 0)),
    Counter("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", _whole(0, 0)),
    Counter("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", _whole(10**3, 80_000)),
    Counter("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", _whole(10**3, 80_000)),
    Counter("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", _whole(478, 560)),
    Counter(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors",
        _whole(0, 0),
    ),
    Counter(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for correctable errors",
        _whole(0, 1),
    ),
    Counter("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", _whole(0, 0)),
    Counter(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "counter",
        "Total number of NVLink bandwidth counters for all lanes.",
        _whole(0, 10**9),
    ),
    Counter("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", _whole(0, 0)),
    Counter(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", _real(0, 1)
    ),
    Counter(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        _real(0, 1),
    ),
    Counter(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        _real(0, 1),
    ),
    Counter(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "gauge",
        "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes"
        " per second.",
        _whole(0, 10**10),
    ),
    Counter(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "gauge",
        "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per"
        " second.",
        _whole(0, 10**10),
    ),
)


def node_text(node: int, rng: random.Random, gpus: int = 8) -> bytes:
    """What the exporter of a node answers where Kubernetes names pods: its template of a GPU's lines."""
    ids = [f"{rng.getrandbits(128):032x}" for _ in range(gpus)]
    labels = [
        f'gpu="{gpu}",UUID="GPU-{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:]}",'
        f'pci_bus_id="00000000:{0x1B + 0x10 * gpu:02X}:00.0",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",'
        f'hostname="gpu-{node:06}",DCGM_FI_DRIVER_VERSION="570.124.06",container="train",namespace="research",'
        f'pod="run-{node // 8}-worker-{node % 8}"'
        for gpu, id_ in enumerate(ids)
    ]
    lines = []
    for each in COUNTERS:
        lines += [f"# HELP {each.name} {each.about}", f"# TYPE {each.name} {each.kind}"]
        lines += [f"{each.name}{{{text}}} {each.value(rng)}" for text in labels]
    return ("\n".join(lines) + "\n").encode()


def _again(texts: Sequence[bytes], nodes: int) -> Iterator[bytes]:
    for number in range(nodes):
        yield texts[number % len(texts)]


def measure(nodes: int, *, seed: int = 1) -> dict[str, float]:
    """CPU seconds of reading, and of reading with making samples, for so many nodes."""
    rng = random.Random(seed)
    distinct = min(nodes, _DISTINCT)
    texts = [node_text(node, rng) for node in range(distinct)]
    reader = TextReader("hpc_job")
    gpus = len(reader.read(texts[0]))  # compiles
    begin_s = time.thread_time()
    for text in _again(texts, nodes):
        reader.read(text)
    read_s = time.thread_time() - begin_s

    allocations = Allocations(
        [
            Allocation(
                f"gpu-{node:06}", f"run-{node // 8}", pod=f"research/run-{node // 8}-worker-{node % 8}"
            )
            for node in range(distinct)
        ]
    )
    options = Options(targets=["http://gpu/metrics"])
    begin_s = time.thread_time()
    events = sum(
        len(samples_of(reader.read(text), "gpu", 0, options, "dcgm", allocations, Account()))
        for text in _again(texts, nodes)
    )
    return {
        "nodes": nodes,
        "gpus": gpus * nodes,
        "text_gb": round(sum(map(len, texts)) / distinct * nodes / 1e9, 2),
        "read_cpu_s": round(read_s, 2),
        "read_and_samples_cpu_s": round(time.thread_time() - begin_s, 2),
        "events": events,
        "load_1min": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    found = measure(parser.parse_args().nodes)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(found["read_cpu_s"] >= LIMIT_S)


if __name__ == "__main__":
    main()
