"""What the SDK takes from a training step of 10 ms: time in its calls, and CPU of its threads.

`python -m loadtest.sdk_cost --steps 6000` prints one JSON object and exits with 1 if any share is 0.1 % or more. Each case is a
process of its own, with its endpoint in another one. A call during which the machine gave the core to another process counts as
no call; their number is printed; after such a switch a step goes on for a millisecond. `empty_call_p50_us` is the same
line with a function that does nothing: what is between the two is the SDK's own, but the shares are of the whole.

With `--gpu` a step is as many matrix products on a GPU as take 10 ms (it needs PyTorch), and the driver is
asked for samples. CUDA's own threads cannot be distinguished from the SDK's there, so only the calls are
judged: compare the CPU of the threads with that of the case `off`, the same training without a run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

STEP_S: Final = 0.010
LIMIT_RATIO: Final = 0.001
CASES: Final = ("fine", "away", "slow", "refused", "spool", "spool_away")
_OFF: Final = "off"
_SLOW_S: Final = 8.0
#: The driver is opened in it, once for each run.
_OPENING_S: Final = 1.0
#: A round of work takes some microseconds; where one took so long another process had the core.
_SWITCHED_S: Final = 0.0005
_SDK: Final = Path(__file__).resolve().parents[1] / "sdk"


def serve(kind: str, port: Connection) -> None:
    """Answer events as an endpoint does, or as one that is away, slow or refuses."""
    status = {"away": 503, "spool_away": 503, "refused": 401}.get(kind, 202)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            events = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if kind == "slow":
                time.sleep(_SLOW_S)
            answer = json.dumps({"accepted": len(events), "refused": []}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()


@contextmanager
def endpoint(kind: str) -> Iterator[str]:
    """Yield the address of an endpoint in a process of its own; nobody listens where it is `away`."""
    if kind in ("away", "spool_away"):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(kind, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.kill()
        process.join()


def work_until(until_s: float) -> None:
    """Compute as a script does between two calls: this thread keeps the interpreter busy.

    Whoever has just got the core back has nothing in its caches, and computes on until it has.
    """
    total = 0
    while (now_s := time.perf_counter()) < until_s:
        total += sum(range(200))
        if time.perf_counter() - now_s > _SWITCHED_S:
            until_s = max(until_s, time.perf_counter() + STEP_S / 10)


def gpu_work() -> Callable[[float], None]:
    """A step of a GPU: as many matrix products as take 10 ms, and the wait for their result."""
    torch = importlib.import_module("torch")  # nothing else here needs it
    left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def multiply(times: int) -> None:
        for _ in range(times):
            product = left @ right
        float(product[0, 0])

    multiply(100)  # what is loaded at the first one
    started_s = time.perf_counter()
    multiply(500)
    times = max(round(STEP_S / ((time.perf_counter() - started_s) / 500)), 1)
    return lambda _: multiply(times)


def train(
    url: str, steps: int, checkpoint_each: int, spool: str | None, *, on_gpu: bool = False
) -> dict[str, Any]:
    """Run a training of steps of 10 ms, with progress at each, and return the figures of this process."""
    import trainfare

    work = gpu_work() if on_gpu else work_until

    reading_s = _clock_s()
    started_s = time.perf_counter()
    run = trainfare.run("cost", url=url, gpus=8, spool=spool).start()
    start_ms = (time.perf_counter() - started_s) * 1000
    calls_s: list[float] = []
    empty_s: list[float] = []
    preempted = 0
    others_s = start_s = time.process_time() - time.thread_time()
    if on_gpu:
        time.sleep(_OPENING_S)
        others_s = time.process_time() - time.thread_time()
    start_s = others_s - start_s
    begin_s = time.perf_counter()
    for step in range(steps):
        work(begin_s + (step + 1) * STEP_S)
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        before_s = time.perf_counter()
        run.progress(step=step, tokens=step * 4096, quality={"loss": 1.0 / (step + 1)})
        if step % checkpoint_each == checkpoint_each - 1:
            run.checkpoint()
        call_s = max(time.perf_counter() - before_s - reading_s, 0.0)
        if resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw == switches:
            calls_s.append(call_s)
        else:
            preempted += 1
        if step % 10 == 0:
            work_until(time.perf_counter() + STEP_S / 10)
            before_s = time.perf_counter()
            _empty(step=step, tokens=step * 4096, quality={"loss": 1.0 / (step + 1)})
            empty_s.append(time.perf_counter() - before_s - reading_s)
    took_s = time.perf_counter() - begin_s
    others_s = time.process_time() - time.thread_time() - others_s
    ended_s = time.perf_counter()
    run.end()
    in_calls, in_threads = statistics.mean(calls_s) / STEP_S, others_s / (steps * STEP_S)
    return {
        "steps": steps,
        "took_s": round(took_s, 2),
        "preempted_calls": preempted,
        "empty_call_p50_us": round(statistics.median(empty_s) * 1e6, 2),
        "call_p50_us": round(statistics.median(calls_s) * 1e6, 2),
        "call_mean_us": round(statistics.mean(calls_s) * 1e6, 2),
        "call_max_us": round(max(calls_s) * 1e6, 1),
        "threads_cpu_us_per_step": round(others_s / steps * 1e6, 2),
        "wall_ratio": round(in_calls, 6),
        "cpu_ratio": round(in_calls + in_threads, 6),
        "start_ms": round(start_ms, 2),
        "start_threads_cpu_ms": round(start_s * 1000, 2),
        "end_ms": round((time.perf_counter() - ended_s) * 1000, 1),
        "dropped": run.dropped,
        "fault": run.fault,
    }


def measure(kind: str, steps: int, checkpoint_each: int, *, on_gpu: bool = False) -> dict[str, Any]:
    """The figures of one case."""
    with endpoint(kind) as url, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "loadtest.sdk_cost", "--train", url, "--steps", str(steps)]
        command += ["--checkpoint-each", str(checkpoint_each)]
        command += ["--spool", f"{folder}/spool"] if kind.startswith("spool") else []
        command += ["--gpu"] if on_gpu else []
        env = {**os.environ, "PYTHONPATH": str(_SDK), "TRAINFARE_STATE_DIR": folder}
        env |= {"TRAINFARE_ENABLED": "0"} if kind == _OFF else {}
        done = subprocess.run(command, env=env, cwd=_SDK.parent, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _empty(*, quality: dict[str, float] | None = None, **values: float) -> None:
    """Do nothing with what `progress` is handed."""


def _clock_s() -> float:
    """What two readings of the clock take."""
    gaps = []
    for _ in range(10_000):
        before_s = time.perf_counter()
        gaps.append(time.perf_counter() - before_s)
    return statistics.median(gaps)


def main() -> None:
    """Print the figures of all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6_000)
    parser.add_argument("--checkpoint-each", type=int, default=1_000, help="steps between two checkpoints")
    parser.add_argument("--cases", nargs="+", choices=(*CASES, _OFF), default=list(CASES))
    parser.add_argument("--gpu", action="store_true", help="steps of a GPU instead of this processor")
    parser.add_argument("--train", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--spool", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        figures = train(given.train, given.steps, given.checkpoint_each, given.spool, on_gpu=given.gpu)
        sys.stdout.write(json.dumps(figures))
        return
    found = {
        kind: measure(kind, given.steps, given.checkpoint_each, on_gpu=given.gpu) for kind in given.cases
    }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    counted = ("wall_ratio",) if given.gpu else ("wall_ratio", "cpu_ratio")
    largest = max(each[name] for each in found.values() for name in counted)
    sys.stdout.write(f"largest share of a step of {STEP_S * 1000:.0f} ms: {largest:.3%}\n")
    sys.exit(largest >= LIMIT_RATIO)


if __name__ == "__main__":
    main()
