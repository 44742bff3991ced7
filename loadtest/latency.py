"""How long an event takes to be readable and an alert to arrive, and what the worker costs: `python -m loadtest.latency`.

A real Kafka broker, one worker in its own process, a receiver of signed webhooks.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from loadtest import soak_judge
from loadtest.drive import Drive
from loadtest.inside import BEGIN, END, parts_of
from loadtest.latency_load import NAMES, Probes
from loadtest.latency_world import WorldError, broker, end_in_order, machine, settings_for
from loadtest.measure import (
    Api,
    Arrivals,
    Send,
    Spread,
    alerted,
    arrived,
    cpu_percent,
    crossing,
    lagging,
    readable,
)
from loadtest.saying import keep_figures
from loadtest.soak_load import GPUS, Event, Load
from loadtest.soak_world import Member
from loadtest.verdict import WrongTotalsError
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.config.settings import Settings
from streams.notify.webhooks.receiver import WebhookReceiver
from streams.transport.producer import LogProducer
from streams.web import local_token
from tests.chaos.log import Offsets

_START_S: Final = 300.0
_DRAIN_S: Final = 300.0
_COMMITTED_S: Final = 12
#: Jobs of a live fleet run for hours; so few end while it is looked at.
_LIFE_S: Final = (1_800, 14_400)
_AMOUNT_EVERY_S: Final = 60
#: Jobs that cross at one tick start so long before it, and have so long to be delivered.
_AHEAD_MS: Final = 60_000
_DELIVERED_S: Final = 90.0


@dataclass
class Live:
    """One run on a broker that is there."""

    poll_interval_s: ClassVar[float] = 0.05  # of the queries for the rows of probes

    options: argparse.Namespace
    settings: Settings
    directory: Path
    others: tuple[str, ...] = NAMES  # how ids of jobs begin that are not of the load

    async def go(self) -> dict[str, Any]:
        """Measure idle, then under load; then everything ends and is compared."""
        options = self.options
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        arrivals = Arrivals(options.crossing or max(1, options.seconds // 10) * options.runaways)
        receiver = WebhookReceiver(secret, arrivals.received)
        await receiver.start()
        worker = self._worker(secret, receiver)
        loads = [os.getloadavg()[0]]
        try:
            worker.start()
            await asyncio.to_thread(_ready, worker)
            with LogProducer(self.settings.kafka) as producer:

                def send(events: Iterable[Event]) -> None:
                    for each in events:
                        producer.send(each.topic, each.key, each.value)

                await asyncio.sleep(options.settle)
                idle = await cpu_percent(worker.cpu_s, options.cpu)
                begin_s = int(time.time())
                load = Load(
                    options.rate * GPUS, begin_s, jobs=min(options.jobs, options.rate),
                    life_s=_LIFE_S, amount_every_s=_AMOUNT_EVERY_S, burst_every_s=options.burst,
                )  # fmt: skip
                drive = Drive(self.settings.kafka, load, begin_s)
                drive.start()
                await asyncio.to_thread(drive.opened.wait)
                # The start of all jobs at once is a load of its own; commits are up to ten seconds behind.
                await asyncio.to_thread(self._caught_up, _COMMITTED_S * options.rate)
                await asyncio.sleep(options.settle)
                worker.signal(BEGIN)
                sent, began_s = drive.sent, time.monotonic()
                busy = await cpu_percent(worker.cpu_s, options.cpu)
                per_s = (drive.sent - sent) / (time.monotonic() - began_s)
                loads.append(os.getloadavg()[0])
                rows, alerts, lag, lag_s = await self._latencies(worker, send, arrivals)
                worker.signal(END)
            loads.append(os.getloadavg()[0])
            memory_mib, live = worker.rss_mib() or 0.0, load.live
            await asyncio.to_thread(drive.end)
            await asyncio.to_thread(self._caught_up, 0)
            code = await asyncio.to_thread(worker.stop)
        except WorldError as fault:
            raise WorldError(f"{fault}\n{worker.said()}") from None
        finally:
            worker.kill()
            await receiver.stop()
        usd = await asyncio.to_thread(self._checked, load)
        return {
            "machine": machine(),
            "load_average": [round(each, 2) for each in loads],
            "events_per_s": round(per_s, 1),
            "gpus": load.nodes * GPUS,
            "jobs": live,
            "seconds": options.seconds,
            "events_sent": drive.sent,
            "late_slices": drive.late_slices,
            "latest_slice_ms": round(1000 * drive.latest_s, 1),
            "produced_to_readable": rows._asdict(),
            "judged_to_received": alerts._asdict(),
            "lag_records": lag,  # not committed yet: commits follow each checkpoint
            "lag_s": lag_s,  # age of the oldest record that is not metered, by the worker's own metric
            "messages_repeated": receiver.repeated,
            "worker_cpu_percent": {"idle": idle, "busy": busy},
            "worker_memory_mib": round(memory_mib),
            "worker_exit_code": code,
            "parts": parts_of(self.directory / "inside.jsonl"),
            "usd": usd,
        }

    def _worker(self, secret: str, receiver: WebhookReceiver) -> Member:
        kafka = self.settings.kafka
        env = {
            "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "TRAINFARE_KAFKA_PARTITIONS": str(kafka.partitions),
            "TRAINFARE_ALERTS_WEBHOOK_SECRET": secret,
            "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": receiver.url,
            "TRAINFARE_ALERTS_ALLOW_HOSTS": receiver.host_port,
        }
        program = ("loadtest.inside", str(self.directory / "inside.jsonl"))
        return Member("worker", {**env, **self._where}, self.directory, self._options_of_store, program)

    @property
    def _where(self) -> dict[str, str]:
        """Settings that say where the store is."""
        return {}

    @property
    def _options_of_store(self) -> tuple[str, ...]:
        return ("--data", str(self._data))

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _api(self, worker: Member) -> Api:
        return Api(worker.url, local_token.read(self._data))

    def _store(self) -> ClickHouseStore:
        return ClickHouseStore(Embedded(data_dir=self._data))

    async def _latencies(
        self, worker: Member, send: Send, arrivals: Arrivals
    ) -> tuple[Spread, Spread, dict[str, float], dict[str, float]]:
        options, probes = self.options, Probes()
        offsets = Offsets(self.settings.kafka)
        api = self._api(worker)
        try:
            if options.crossing:
                await crossing(send, probes, options.crossing, _AHEAD_MS)
                alerts = arrived(arrivals, _DELIVERED_S)
            else:
                alerts = alerted(send, probes, arrivals, options.runaways)
            return await asyncio.gather(
                readable(api, send, probes, options.seconds, options.probes, self.poll_interval_s),
                alerts,
                lagging(offsets.behind, options.seconds),
                lagging(worker.lag_s, options.seconds),
            )
        finally:
            offsets.close()

    def _caught_up(self, behind_at_most: int) -> None:
        """Wait until the worker is so close behind the log, by what it has committed."""
        offsets, deadline_s = Offsets(self.settings.kafka), time.monotonic() + _DRAIN_S
        try:
            while (behind := offsets.behind()) > behind_at_most:
                if time.monotonic() > deadline_s:
                    raise WorldError(f"{behind:,} records were not metered after {_DRAIN_S:g} s")
                time.sleep(0.5)
        finally:
            offsets.close()

    def _checked(self, load: Load) -> str:
        """What all jobs of the load cost; raises WrongTotalsError unless the oracle says the same of each."""
        store = self._store()
        try:
            got = soak_judge.stored(store, self.others)
        finally:
            store.close()
        want = soak_judge.expected(load.account)
        wrong = soak_judge.differences(got, want)
        if wrong:
            shown = "\n  ".join(wrong[:10])
            raise WrongTotalsError(f"{len(wrong)} totals in ClickHouse differ from the oracle's:\n  {shown}")
        return f"{want.cost_nano() / 1e9:.9f}"


def _ready(worker: Member) -> None:
    deadline_s = time.monotonic() + _START_S
    while not worker.look().ready:
        if not worker.alive or time.monotonic() > deadline_s:
            raise WorldError(f"the worker was not ready after {_START_S:g} s")
        time.sleep(0.2)


def report(figures: Mapping[str, Any]) -> str:
    """The figures for people."""
    facts, cpu = figures["machine"], figures["worker_cpu_percent"]
    lines = [
        (
            f"{figures['events_per_s']:,} events/s, {figures['gpus']:,} GPUs, {figures['jobs']:,} jobs; "
            f"{figures['seconds']} s; load {figures['load_average']} on {facts['cores']} cores ({facts['cpu']})"
        ),
        f"{'ms':28}{'arrived':>12}{'median':>10}{'p99':>10}{'p99.9':>10}{'max':>10}",
    ]
    for name, key in (
        ("produced -> row readable", "produced_to_readable"),
        ("tick -> webhook received", "judged_to_received"),
    ):
        each = figures[key]
        values = (each["median_ms"], each["p99_ms"], each["p999_ms"], each["max_ms"])
        shown = "".join(f"{'-' if value is None else format(value, ',.0f'):>10}" for value in values)
        lines.append(f"{name:28}{each['arrived']:>6}/{each['expected']:<5}{shown}")
    lines.append(
        f"worker: {cpu['idle']:.1f} % of a core idle, {cpu['busy']:.1f} % under load, before the probes; "
        f"{figures['worker_memory_mib']:,} MiB; not committed yet: {figures['lag_records']['median']:,.0f} records, "
        f"{figures['lag_records']['max']:,} at most; oldest not metered: {figures['lag_s']['median']:.1f} s, "
        f"{figures['lag_s']['max']:.1f} at most"
    )
    for name, part in figures["parts"].items():
        if part["count"]:
            lines.append(
                f"{name:28}{part['count']:>12}{part['median_ms']:>10.1f}{part['p99_ms']:>10.1f}{'':10}{part['max_ms']:>10.1f}"
            )
    if figures["late_slices"]:
        lines.append(
            f"the load itself was late {figures['late_slices']} times, {figures['latest_slice_ms']:,} ms at most: "
            "the machine was too busy for these figures"
        )
    return "\n".join([*lines, f"totals right: {figures['usd']} USD"]) + "\n"


def arguments(prog: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of the options that every run of this kind has."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--rate", type=int, default=1_000, help="nodes of 8 GPUs, a message a second each")
    parser.add_argument(
        "--jobs", type=int, default=1_000, help="so many jobs run on them, a node each at least"
    )
    parser.add_argument(
        "--burst", type=int, default=60, help="exporters fall silent and catch up so often, in s"
    )
    parser.add_argument("--seconds", type=int, default=60, help="how long latencies are measured")
    parser.add_argument(
        "--cpu", type=float, default=30.0, help="how long a share of a core is measured, in s"
    )
    parser.add_argument(
        "--settle", type=float, default=15.0, help="how long to wait before each of them, in s"
    )
    parser.add_argument("--probes", type=float, default=5.0, help="probes per second")
    parser.add_argument("--runaways", type=int, default=20, help="jobs that burn too much, before each tick")
    parser.add_argument(
        "--crossing", type=int, default=0, help="instead: jobs that all burn too much at one tick"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured and right, 1 it could not be, or the totals are wrong."""
    options = arguments("latency", __doc__).parse_args(argv)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-latency-")))
        try:
            kafka = stack.enter_context(broker(directory / "kafka"))
            settings = settings_for(kafka.bootstrap_servers, directory / "data")
            figures = asyncio.run(Live(options, settings, directory).go())
        except (WorldError, WrongTotalsError) as fault:
            sys.stderr.write(f"latency: {fault}\n")
            return 1
    sys.stdout.write(report(figures))
    keep_figures(options.out, figures)
    return 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
