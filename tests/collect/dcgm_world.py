"""Two nodes with dcgm-exporter's text over real HTTP, and the allocations of a scheduler."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from streams.collect.allocations import Allocation
from streams.collect.collector import Collector
from streams.collect.dcgm.collector import open_collector
from streams.collect.dcgm.options import Options

T0_MS = 1_790_000_000_000 // 15_000 * 15_000
INTERVAL_MS = 15_000
BLANK = "9223372036854775794"


def text(node: str, state: int, *, gpus: int = 2) -> str:
    """What the exporter of a node answers: the second GPU of n1 has no reading of power, n2 has no profiling fields."""
    lines = ["# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).", "# TYPE DCGM_FI_DEV_GPU_UTIL gauge"]
    for gpu in range(gpus):
        labels = (
            f'gpu="{gpu}", UUID="GPU-{node}-{gpu}",device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",'
            f'hostname="{node}",DCGM_FI_DRIVER_VERSION="550.54.15",container="",namespace="",pod=""'
        )
        power = BLANK if (node, gpu) == ("n1", 1) else "512.5"
        lines += [
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {(state * 10 + gpu) % 101}",
            f"DCGM_FI_DEV_FB_USED{{{labels}}} {1000 + state}",
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {power}",
            f"DCGM_FI_DEV_MEMORY_TEMP{{{labels}}} {BLANK}",
        ]
        if node == "n1":
            lines.append(f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.{25 + state:02}")
            lines.append(f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} 0.125")
    return "\n".join(lines) + "\n"


class DcgmWorld:
    """n1 belongs to one job; of n2 the first GPU to another, the second to nobody."""

    states = 6
    text: Callable[[str, int], str] = staticmethod(text)

    def __init__(self, directory: Path) -> None:
        self._state = 0
        self._is_away = False
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = world.text(self.path.split("/")[1], world._state).encode()
                self.send_response(503 if world._is_away else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._allocations = directory / "allocations.json"
        held = [Allocation("n1", "train-a"), Allocation("n2", "train-b", attempt=2, gpus=("GPU-n2-0",))]
        self._allocations.write_bytes(msgspec.json.encode({"allocations": held}))

    def collector(self) -> Collector:
        targets = [f"{self.address}/n1/metrics", f"{self.address}/n2/metrics"]
        return open_collector(Options(targets=targets, allocations_file=self._allocations))

    def turn(self, state: int) -> int:
        self._state = state
        return T0_MS + state * INTERVAL_MS

    def entries(self, state: int) -> int:
        """Count the GPUs that both exporters name."""
        texts = self.text("n1", state) + self.text("n2", state)
        return len(set(re.findall(r'(?:UUID|gpu_uuid)="([^"]+)"', texts)))

    def go_away(self) -> None:
        self._is_away = True

    def come_back(self) -> None:
        self._is_away = False

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
