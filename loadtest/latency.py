"""How long an event takes to be readable and an alert to arrive, and what the worker costs: `python -m loadtest.latency`.

It must not judge: it prints what it measured, and the load of the machine it measured it under. A real Kafka broker,
a worker in its own process with an embedded ClickHouse, a receiver of signed webhooks on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from loadtest.latency_load import Event, Fleet, prices
from loadtest.latency_world import Api, WorkerProcess, WorldError, broker, machine, settings_for
from sinks.webhooks.receiver import Received, Receiver
from streams.cli.producer import LogProducer

TICK_MS = 10_000
_SLICE_S = 0.01
_POLL_S = 0.05
_PATIENCE_S = 30.0
_READABLE = """
SELECT job_id FROM jobs WHERE job_id IN {jobs:Array(String)}
AND job_id IN (SELECT job_id FROM job_usage_minutes WHERE job_id IN {jobs:Array(String)})
"""


class Spread(NamedTuple):
    """Latencies in ms; None where nothing arrived."""

    expected: int
    arrived: int
    median_ms: float | None
    p99_ms: float | None
    max_ms: float | None


def spread(expected: int, found_ms: Sequence[float]) -> Spread:
    """Return the middle and the end of a distribution; a p99 is one that was measured, none between two."""
    ordered = sorted(found_ms)
    if not ordered:
        return Spread(expected, 0, None, None, None)

    def at(share_percent: int) -> float:
        return ordered[-(-len(ordered) * share_percent // 100) - 1]

    return Spread(expected, len(ordered), at(50), at(99), ordered[-1])


def now_ms() -> float:
    """Return the wall clock, which all processes of this machine share."""
    return time.time_ns() / 1e6


class Sender:
    """Keeps up a rate in a thread of its own, and sends what others want sent."""

    def __init__(self, producer: LogProducer, fleet: Fleet) -> None:
        self._producer, self._fleet = producer, fleet
        self._lock = threading.Lock()
        self.sent = 0

    def send(self, events: Iterable[Event]) -> None:
        """Hand events to the producer's queue."""
        with self._lock:
            for each in events:
                self._producer.send(each.topic, each.key, each.value)

    @contextmanager
    def at_rate(self, per_s: int) -> Iterator[None]:
        """Send the fleet's steady load while the block runs."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(per_s, stop))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, per_s: int, stop: threading.Event) -> None:
        began_s, done = time.monotonic(), 0
        while not stop.wait(_SLICE_S):
            due = int((time.monotonic() - began_s) * per_s) - done
            self.send([self._fleet.steady(int(now_ms())) for _ in range(due)])
            done += due
        self.sent += done


class Arrivals:
    """How long after its tick the message of each runaway came; `all` is set with the last of them."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.found_ms: dict[str, float] = {}
        self.all = asyncio.Event()

    def received(self, message: Received) -> None:
        """Take one verified message."""
        at_ms = now_ms()
        subject = str(message.data["subject"]["name"])
        if message.type == "alert.firing" and message.data["rule"] == "burn_fast":
            self.found_ms.setdefault(subject, at_ms - int(message.data["started_ms"]))
        if len(self.found_ms) == self.expected:
            self.all.set()


async def cpu_percent(worker: WorkerProcess, for_s: float) -> float:
    """Return the share of one core that the worker uses for a while."""
    began_s, used_s = time.monotonic(), worker.cpu_s()
    await asyncio.sleep(for_s)
    return 100 * (worker.cpu_s() - used_s) / (time.monotonic() - began_s)


async def readable(api: Api, sender: Sender, fleet: Fleet, for_s: float, per_s: float) -> Spread:
    """Send probes; return how long each took from before it was sent until SQL found both of its rows."""
    sent_ms: dict[str, float] = {}
    found_ms: dict[str, float] = {}
    began_s = time.monotonic()
    while True:
        passed_s = time.monotonic() - began_s
        while passed_s < for_s and len(sent_ms) < passed_s * per_s:
            name = f"probe-{len(sent_ms)}"
            sent_ms[name] = now_ms()
            sender.send(fleet.probe(name, int(sent_ms[name])))
        waiting = [name for name in sent_ms if name not in found_ms]
        if waiting:
            for name in await asyncio.to_thread(api.names, _READABLE, jobs=waiting):
                found_ms[name] = now_ms() - sent_ms[name]
        if passed_s > for_s and (len(found_ms) == len(sent_ms) or passed_s > for_s + _PATIENCE_S):
            return spread(len(sent_ms), list(found_ms.values()))
        await asyncio.sleep(_POLL_S)


async def alerted(sender: Sender, fleet: Fleet, arrivals: Arrivals, per_tick: int) -> Spread:
    """Let jobs burn too much before each of some ticks; return how long after its tick each message came."""
    for tick in range(arrivals.expected // per_tick):
        await asyncio.sleep((TICK_MS - now_ms() % TICK_MS) / 1000 + 3)  # well before the next one
        for number in range(per_tick):
            sender.send(fleet.runaway(f"runaway-{tick}-{number}", int(now_ms())))
    with suppress(TimeoutError):
        await asyncio.wait_for(arrivals.all.wait(), _PATIENCE_S)
    return spread(arrivals.expected, list(arrivals.found_ms.values()))


async def measure(options: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Run it all; return the figures."""
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    arrivals = Arrivals(max(1, options.seconds // 10) * options.runaways)
    receiver = Receiver(secret, arrivals.received)
    await receiver.start()
    environment = {
        "TRAINFARE_ALERTS_WEBHOOK_SECRET": secret,
        "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": receiver.url,
        "TRAINFARE_ALERTS_ALLOW_HOSTS": receiver.host_port,
    }
    fleet, loads = Fleet(options.jobs), [os.getloadavg()[0]]
    try:
        with broker(directory / "kafka") as kafka:
            settings = settings_for(kafka.bootstrap_servers, directory / "data")
            worker = await asyncio.to_thread(WorkerProcess, settings, environment, directory / "worker.log")
            try:
                with LogProducer(settings.kafka) as producer:
                    sender = Sender(producer, fleet)
                    await asyncio.sleep(options.settle)
                    idle = await cpu_percent(worker, options.cpu)
                    sender.send([*prices(int(now_ms())), *fleet.started(int(now_ms()))])
                    await asyncio.sleep(options.settle)
                    quiet = await cpu_percent(worker, options.cpu)
                    with sender.at_rate(options.rate):
                        await asyncio.sleep(options.settle)
                        busy = await cpu_percent(worker, options.cpu)
                        loads.append(os.getloadavg()[0])
                        rows, alerts = await asyncio.gather(
                            readable(Api(worker.url), sender, fleet, options.seconds, options.probes),
                            alerted(sender, fleet, arrivals, options.runaways),
                        )
                    loads.append(os.getloadavg()[0])
                    memory_mib = worker.memory_mib()
            finally:
                code = await asyncio.to_thread(worker.stop)
    finally:
        await receiver.stop()
    return {
        "machine": machine(),
        "load_average": [round(each, 2) for each in loads],
        "events_per_s": options.rate,
        "jobs": options.jobs,
        "seconds": options.seconds,
        "steady_events_sent": sender.sent,
        "produced_to_readable": rows._asdict(),
        "judged_to_received": alerts._asdict(),
        "messages_repeated": receiver.repeated,
        "worker_cpu_percent": {"idle": idle, "idle_with_jobs": quiet, "busy": busy},
        "worker_memory_mib": round(memory_mib),
        "worker_exit_code": code,
    }


def report(figures: dict[str, object]) -> str:
    """Return the figures for people."""
    facts, cpu = figures["machine"], figures["worker_cpu_percent"]
    if not isinstance(facts, dict) or not isinstance(cpu, dict):
        raise TypeError("figures of another form")
    lines = [
        (
            f"{figures['events_per_s']:,} events/s, {figures['jobs']:,} jobs of 8 GPUs, {figures['seconds']} s; "
            f"load {figures['load_average']} on {facts['cores']} cores ({facts['cpu']})"
        ),
        f"{'ms':28}{'arrived':>12}{'median':>10}{'p99':>10}{'max':>10}",
    ]
    for name, key in (
        ("produced -> row readable", "produced_to_readable"),
        ("tick -> webhook received", "judged_to_received"),
    ):
        each = figures[key]
        if not isinstance(each, dict):
            raise TypeError("figures of another form")
        values = (each["median_ms"], each["p99_ms"], each["max_ms"])
        shown = "".join(f"{'-' if value is None else format(value, ',.0f'):>10}" for value in values)
        lines.append(f"{name:28}{each['arrived']:>6}/{each['expected']:<5}{shown}")
    lines.append(
        f"worker: {cpu['idle']:.1f} % of a core idle, {cpu['idle_with_jobs']:.1f} % with the jobs but no events, "
        f"{cpu['busy']:.1f} % at {figures['events_per_s']:,} events/s; {figures['worker_memory_mib']:,} MiB"
    )
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 it could not be."""
    parser = argparse.ArgumentParser(prog="latency", description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="events per second of the steady load")
    parser.add_argument("--jobs", type=int, default=1_000, help="jobs that the steady load is of")
    parser.add_argument("--seconds", type=int, default=60, help="how long latencies are measured")
    parser.add_argument(
        "--cpu", type=float, default=30.0, help="how long each share of a core is measured, in s"
    )
    parser.add_argument(
        "--settle", type=float, default=15.0, help="how long to wait before each of them, in s"
    )
    parser.add_argument("--probes", type=float, default=5.0, help="probes per second")
    parser.add_argument("--runaways", type=int, default=20, help="jobs that burn too much, before each tick")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="trainfare-latency-") as directory:
        try:
            figures = asyncio.run(measure(options, Path(directory)))
        except WorldError as fault:
            sys.stderr.write(f"latency: {fault}\n")
            return 1
    sys.stdout.write(report(figures))
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
