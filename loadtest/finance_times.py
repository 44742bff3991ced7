"""How long the figures of finance take on a year of 5,000 jobs: `python -m loadtest.finance_times`.

Each is asked of the API of a process that serves the store, by the command beside that process, and by the command that
opens the store itself. The store has minutes of the last ninety days; it is made once and kept. Each statement has 128 MiB: one
that needs more fails.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import urllib3

from loadtest.abuse_watch import query_processes
from loadtest.latency_world import ROOT, WorldError
from loadtest.page_times import kept_store
from loadtest.rest import process_cpu_s
from loadtest.saying import keep_figures, say
from loadtest.timing_options import timing_parser
from schemas.tables import JOB_MINUTES, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.costs.request import Metric
from streams.worker.storing.balances import keep_settled
from tests.panels import year

_ROUNDS: Final = 5
_START_S: Final = 60.0
_AUDIT_S: Final = 300.0
#: Of a core: a server that takes less is at rest.
_REST_RATIO: Final = 0.1
_MINUTE_DAYS: Final = 90
_NODES: Final = 100
_GPU_MINUTE: Final = 60_000 * 1_000
#: Seconds of a median: through the API, by the command beside a worker, by the command on a closed store.
GOALS_S: Final = (0.5, 0.5, 1.5)
_COMMITMENTS: Final = """
[[commitment]]
id = "reserved"
kind = "reserved"
from = 2025-01-01
to = 2025-12-31
gpus = 64
upfront_usd = 1000000
team = "team-1"
match.gpu_type = "H100"
[[commitment]]
id = "plan"
kind = "savings_plan"
from = 2025-01-01
to = 2025-12-31
usd_per_hour = 100
team = "team-2"
[[commitment]]
id = "owned"
kind = "owned"
from = 2025-01-01
to = 2025-12-31
gpus = 32
upfront_usd = 900000
"""


class Question(NamedTuple):
    """A figure; `path` is empty where the API does not have it."""

    name: str
    path: str
    command: tuple[str, ...]


QUESTIONS: Final = (
    *(
        Question(
            f"costs {metric}",
            f"costs?metric={metric}&by=team&per=day",
            ("costs", "--metric", metric, "--by", "team", "--per", "day"),
        )
        for metric in Metric
    ),
    Question("chargeback", "", ("chargeback", "--month", "2025-12", "--by", "team")),
    Question("forecast", "forecast?by=team", ("forecast", "--by", "team")),
    Question(
        "commitments by day",
        "commitments?per=day",
        ("commitments", "show", "--per", "day"),
    ),
    Question("coverage by day", "coverage?per=day", ("coverage", "--per", "day")),
    Question("idle", "idle?by=team", ("idle", "--by", "team")),
    Question("idle by day", "", ("idle", "--by", "team", "--per", "day")),
    Question("savings", "", ("savings",)),
    Question("carbon by day", "", ("carbon", "show", "--by", "team", "--per", "day")),
)


class Took(NamedTuple):
    """Seconds of one answer, by the clock and of all processes that made it."""

    wall_s: float
    cpu_s: float


@contextmanager
def serving(data_dir: Path) -> Iterator[tuple[str, int]]:
    """Serve a store at rest; its address and process.

    Raises:
        WorldError: It does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streams.cli.ahead", "serve", "--read-only", "--data", str(data_dir)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TRAINFARE_WEB_PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until_s = time.monotonic() + _START_S
        while not _is_ready(url):
            if process.poll() is not None or time.monotonic() > until_s:
                raise WorldError(f"{' '.join(command)} does not answer")
            time.sleep(0.2)
        _wait_for_rest(process.pid)
        yield url, process.pid
    finally:
        process.terminate()
        try:
            process.wait(_START_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait_for_rest(pid: int) -> None:
    """Wait until the audit that a store at rest begins with has ended: its time would be that of the first questions."""
    until_s, used_s = time.monotonic() + _AUDIT_S, -1.0
    while time.monotonic() < until_s and _server_s(pid) - used_s > _REST_RATIO:
        used_s = _server_s(pid)
        time.sleep(1.0)


def _is_ready(url: str) -> bool:
    try:
        return urllib3.request("GET", f"{url}/readyz", timeout=5, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def by_api(url: str, pid: int, question: Question) -> Took:
    """Ask the API."""
    began_s, used_s = time.perf_counter(), _server_s(pid)
    answer = urllib3.request("GET", f"{url}/api/v1/{question.path}", timeout=_START_S, retries=False)
    if answer.status != 200:
        raise WorldError(f"{question.path}: {answer.status} {answer.data[:500]!r}")
    return Took(time.perf_counter() - began_s, _server_s(pid) - used_s)


def by_command(data_dir: Path, question: Question, pid: int = 0) -> Took:
    """Run the command; `pid` is of the process that has the store, 0: none has it.

    Raises:
        WorldError: The command fails.
    """
    command = [sys.executable, "-m", "streams.cli.ahead", *question.command, "--data", str(data_dir)]
    began_s, used_s = time.perf_counter(), _children_s() + _server_s(pid)
    ran = subprocess.run(
        [*command, "--format", "json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        raise WorldError(f"{' '.join(command)}: {ran.stderr[-500:]}")
    return Took(time.perf_counter() - began_s, _children_s() + _server_s(pid) - used_s)


def _server_s(pid: int) -> float:
    return sum(process_cpu_s(each) for each in (pid, *query_processes(pid))) if pid else 0.0


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _median(ask: Callable[[], Took], rounds: int) -> Took:
    ask()
    found = [ask() for _ in range(rounds)]
    return Took(*(statistics.median(each) for each in zip(*found, strict=True)))


def copied(kept: Path, directory: Path) -> Path:
    """A copy of the kept store, with commitments."""
    with kept_store(kept) as store:
        if not (kept / "minutes").exists():
            fill_minutes(store)
            (kept / "minutes").touch()
        keep_settled(store)
    data_dir = directory / "data"
    shutil.copytree(kept, data_dir, symlinks=True)
    (directory / "commitments.toml").write_text(_COMMITMENTS)
    command = (
        sys.executable,
        "-m",
        "streams.cli.ahead",
        "commitments",
        "load",
        str(directory / "commitments.toml"),
    )
    subprocess.run([*command, "--data", str(data_dir)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return data_dir


def fill_minutes(store: ClickHouseStore) -> None:
    """Minutes of all jobs and nodes of the last ninety days."""
    for day in range(_MINUTE_DAYS):
        begin_s = year.END_S - (day + 1) * year.DAY_S
        minutes = np.arange(begin_s, begin_s + year.DAY_S, 60)
        gpu = {"sku": "h100", "unit": "gpu_milli_ms", "version": 1}
        of_nodes = {
            "minute": np.repeat(minutes, _NODES),
            "node": [f"node-{each}" for each in range(_NODES)] * len(minutes),
            "quantity": 8 * _GPU_MINUTE,
            "cost_usd": 1,
        }
        turn = (begin_s - year.END_S + year.YEAR_S) // year.HOUR_S // year.LENGTH_H
        of_jobs = {
            "minute": np.repeat(minutes, year.SLOTS),
            "job_id": [f"job-{slot}-{turn}" for slot in range(year.SLOTS)] * len(minutes),
            "attempt": 1,
            "node": [f"node-{slot // 2}" for slot in range(year.SLOTS)] * len(minutes),
            "component": "gpu",
            "phase": "running",
            "quantity": 4 * _GPU_MINUTE,
            "cost_usd": (np.arange(len(minutes) * year.SLOTS) % 3 == 0).astype("int64"),
        }
        store.insert(NODE_MINUTES, year.table_of(NODE_MINUTES, of_nodes | gpu), f"minutes:nodes:{day}")
        store.insert(JOB_MINUTES, year.table_of(JOB_MINUTES, of_jobs | gpu), f"minutes:jobs:{day}")


def line_of(found: dict[str, Any]) -> str:
    """A line of the table: seconds by the clock and of CPU, a star where a median is beyond its goal."""
    cells = []
    for way, goal_s in zip(("api", "beside", "closed"), GOALS_S, strict=True):
        took = found[way]
        mark = " " if took is None or took["wall_s"] < goal_s else "*"
        cells.append(f"{'':16}" if took is None else f"{took['wall_s']:7.2f}{mark}{took['cpu_s']:7.2f} ")
    return f"{found['name']:22}{''.join(cells)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 it could not be."""
    options = timing_parser("finance_times", __doc__, _ROUNDS).parse_args(argv)
    asked = [each for each in QUESTIONS if options.only in each.name]
    figures: list[dict[str, Any]] = []
    say(f"{'seconds, CPU seconds':22}{'API':>15}{'beside':>16}{'closed':>16}   load {os.getloadavg()[0]:.1f}")
    try:
        with tempfile.TemporaryDirectory() as directory:
            data_dir = copied(options.store, Path(directory))
            ways: dict[str, dict[str, Took | None]] = {each.name: {} for each in asked}
            with serving(data_dir) as (url, pid):
                for each in asked:
                    of = ways[each.name]
                    of["api"] = (
                        _median(partial(by_api, url, pid, each), options.rounds) if each.path else None
                    )
                    of["beside"] = _median(partial(by_command, data_dir, each, pid), options.rounds)
            for each in asked:
                ways[each.name]["closed"] = _median(partial(by_command, data_dir, each), options.rounds)
                found = {
                    way: None if took is None else {name: round(s, 3) for name, s in took._asdict().items()}
                    for way, took in ways[each.name].items()
                }
                figures.append({"name": each.name, **found})
                say(line_of(figures[-1]))
    except WorldError as fault:
        sys.stderr.write(f"finance_times: {fault}\n")
        return 1
    keep_figures(options.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
