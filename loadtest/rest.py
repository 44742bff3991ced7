"""What a worker costs at rest and at a small load, by thread: `python -m loadtest.rest --rate 0|1000 [--embedded]`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from loadtest.latency_world import START_S, WorldError, broker, machine, settings_for
from loadtest.saying import keep_figures
from loadtest.soak_load import GPUS, NODES_PER_JOB, Load
from loadtest.soak_world import Member
from streams.config.settings import KafkaSettings, Settings
from streams.transport.producer import LogProducer
from tests.store_process import StoreProcess

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SHOWN = 12


class Spent(NamedTuple):
    """What a thread had used at an instant."""

    name: str
    cpu_s: float
    waits: int  # times that it went to sleep by itself


class Share(NamedTuple):
    """What a thread, or the whole process, uses."""

    name: str
    cpu_percent: float  # of one core
    wakes_per_s: float


class Steady(threading.Thread):
    """Sends each second's events evenly over it, whatever the worker does; ends with `end`.

    One that is silent sends the start of its jobs only.
    """

    def __init__(self, kafka: KafkaSettings, load: Load, begin_s: int, *, silent: bool) -> None:
        super().__init__(name="steady", daemon=True)
        self._silent = silent
        self._kafka, self._load, self._begin_s = kafka, load, begin_s
        self._ending = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Until `end`."""
        with LogProducer(self._kafka) as producer:
            for each in self._load.opening():
                producer.send(each.topic, each.key, each.value)
            if self._silent:
                self._ending.wait()
                return
            for now_s in count(self._begin_s + 1):
                events = list(self._load.second(now_s))
                for number, each in enumerate(events):
                    if self._ending.wait(max(now_s + number / len(events) - time.time(), 0)):
                        return
                    producer.send(each.topic, each.key, each.value)
                    self.sent += 1

    def end(self) -> None:
        """Return when all that was sent is acknowledged."""
        self._ending.set()
        self.join()


def threads(pid: int) -> dict[int, Spent]:
    """What each thread of a process has used, by its id."""
    found: dict[int, Spent] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            head, _, tail = (task / "stat").read_text(encoding="utf-8").rpartition(")")
            status = (task / "status").read_text(encoding="utf-8")
        except OSError:
            continue  # it ended
        fields = tail.split()
        waits = next(line.split()[1] for line in status.splitlines() if line.startswith("voluntary"))
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        found[int(task.name)] = Spent(head.partition("(")[2], cpu_s, int(waits))
    return found


def process_cpu_s(pid: int) -> float:
    """The seconds of a core that all threads have used, those that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def shares(before: Mapping[int, Spent], after: Mapping[int, Spent], for_s: float) -> list[Share]:
    """What each thread used between two looks, most first; those of one name that are many, as one."""
    by_name: dict[str, list[tuple[int, float, float]]] = {}
    for tid, spent in after.items():
        then = before.get(tid, Spent(spent.name, 0.0, 0))
        used = (tid, 100 * (spent.cpu_s - then.cpu_s) / for_s, (spent.waits - then.waits) / for_s)
        by_name.setdefault(spent.name, []).append(used)
    found: list[Share] = []
    for name, each in by_name.items():
        large = [one for one in each if one[1] >= 0.1 or one[2] >= 1]
        small = [one for one in each if one not in large]
        found += [Share(f"{name} {tid}", cpu, wakes) for tid, cpu, wakes in large]
        if small:
            found.append(
                Share(f"{name} x{len(small)}", sum(one[1] for one in small), sum(one[2] for one in small))
            )
    return sorted(found, key=lambda share: -share.cpu_percent)


@contextmanager
def worker(settings: Settings, store: StoreProcess | None, directory: Path) -> Iterator[Member]:
    """Run one worker with default settings; ready when the block begins."""
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_PARTITIONS": str(settings.kafka.partitions),
    }
    if store is not None:
        env["TRAINFARE_CLICKHOUSE_URL"] = store.url
    arguments = () if store is not None else ("--data", str(directory / "data"))
    member = Member("worker", env, directory, arguments)
    member.start()
    try:
        deadline_s = time.monotonic() + START_S
        while not member.look().ready:
            if not member.alive or time.monotonic() > deadline_s:
                raise WorldError(f"the worker is not ready:\n{member.said()}")
            time.sleep(0.2)
        yield member
    finally:
        member.stop()


def measure(options: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Run it; return the figures."""
    with ExitStack() as stack:
        kafka = stack.enter_context(broker(directory / "kafka"))
        settings = settings_for(kafka.bootstrap_servers, directory / "data")
        store = None
        if not options.embedded:
            store = stack.enter_context(StoreProcess(directory / "store"))
        member = stack.enter_context(worker(settings, store, directory))
        steady = None
        nodes = options.rate or options.jobs * NODES_PER_JOB
        if nodes:
            begin_s = int(time.time())
            load = Load(nodes * GPUS, begin_s)
            steady = Steady(settings.kafka, load, begin_s, silent=not options.rate)
            steady.start()
            stack.callback(steady.end)
        sys.stderr.write(f"worker {member.pid}\n")
        time.sleep(options.settle)
        sent, began_s = 0 if steady is None else steady.sent, time.monotonic()
        before, before_s = threads(member.pid), process_cpu_s(member.pid)
        time.sleep(options.seconds)
        after, used_s = threads(member.pid), process_cpu_s(member.pid) - before_s
        for_s = time.monotonic() - began_s
        found = shares(before, after, for_s)
        return {
            "machine": machine(),
            "load_average": round(os.getloadavg()[0], 2),
            "embedded": options.embedded,
            "records_per_s": 0.0 if steady is None else round((steady.sent - sent) / for_s, 1),
            "live_jobs": load.live if steady is not None else 0,
            "seconds": round(for_s, 1),
            "cpu_percent": round(100 * used_s / for_s, 2),
            "wakes_per_s": round(sum(each.wakes_per_s for each in found), 1),
            "threads": [each._asdict() for each in found],
            "memory_mib": round(member.rss_mib() or 0),
        }


def report(figures: Mapping[str, object]) -> str:
    """The figures for people."""
    found = figures["threads"]
    assert isinstance(found, list)
    store = "embedded store" if figures["embedded"] else "external store"
    head = (
        f"{figures['records_per_s']} records/s of {figures['live_jobs']} jobs, {store}: "
        f"{figures['cpu_percent']} % of a core, {figures['wakes_per_s']} wake-ups/s, {figures['memory_mib']} MiB "
        f"({figures['seconds']} s, load {figures['load_average']})"
    )
    lines = [head]
    lines += [
        f"  {each['name']:28}{each['cpu_percent']:8.2f} %{each['wakes_per_s']:9.1f}/s"
        for each in found[:_SHOWN]
    ]
    if len(found) > _SHOWN:
        rest = found[_SHOWN:]
        cpu, wakes = (sum(each[name] for each in rest) for name in ("cpu_percent", "wakes_per_s"))
        lines.append(f"  {f'{len(rest)} others':28}{cpu:8.2f} %{wakes:9.1f}/s")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 it could not be."""
    parser = argparse.ArgumentParser(prog="rest", description=__doc__)
    parser.add_argument("--rate", type=int, default=0, help="node messages per second, of 8 GPUs each")
    parser.add_argument("--jobs", type=int, default=0, help="jobs that run and say nothing, at --rate 0")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is measured")
    parser.add_argument("--settle", type=float, default=15.0, help="how long to wait before, in s")
    parser.add_argument("--embedded", action="store_true", help="the store in the worker's own process")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="trainfare-rest-") as directory:
        try:
            figures = measure(options, Path(directory))
        except WorldError as fault:
            sys.stderr.write(f"rest: {fault}\n")
            return 1
    sys.stdout.write(report(figures))
    keep_figures(options.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
