"""How fast one worker meters a full log, the whole engine: `python -m loadtest.catch_up --scenario w2`.

A real broker; the log is filled before the worker starts.  The clock runs from the first record that is folded to the
last one whose rows and snapshot are in ClickHouse.  It must not report a figure unless the totals are right.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loadtest.fleet import SHAPES, Fleet, fill, recent, workload
from loadtest.known import Known
from loadtest.latency_world import WorldError, broker, machine, settings_for
from loadtest.soak_world import Member
from loadtest.verdict import WrongTotalsError, check
from sinks.clickhouse import Embedded, Target
from streams.cli.producer import LogProducer
from streams.config import KafkaSettings, Settings
from streams.keys import key_of
from streams.topics import Topic, full_name
from tests.store_process import StoreProcess

_PATIENCE_S: Final = 900.0
_STILL_S: Final = 120.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Plan:
    """What is sent and how it is metered."""

    workload: str
    seconds: int | None = None
    #: Whether jobs say that they start and end; else all are metered by their samples.
    lifecycle: bool = False
    #: A ClickHouse in a process of its own; else inside the worker, whose CPU then holds it.
    server: bool = False
    program: tuple[str, ...] = ("loadtest.inside",)


def run(plan: Plan, directory: Path) -> dict[str, Any]:
    """Fill, meter, compare; returns the figures."""
    with ExitStack() as stack:
        kafka = stack.enter_context(broker(directory / "kafka"))
        settings = settings_for(kafka.bootstrap_servers, directory / "data")
        store = stack.enter_context(StoreProcess(directory / "store")) if plan.server else None
        seconds = plan.seconds or SHAPES[plan.workload].seconds
        fleet = workload(plan.workload, recent(seconds), settings.kafka.partitions, seconds)
        began_s = time.perf_counter()
        known = send(fleet, settings.kafka, lifecycle=plan.lifecycle)
        filled_s = time.perf_counter() - began_s
        lines = meter(plan, settings, store, known, directory)
        target: Target = Embedded(data_dir=directory / "data") if store is None else store.target()
        check(target, known)
    return {
        "scenario": plan.workload,
        "lifecycle": plan.lifecycle,
        "store": "server" if plan.server else "embedded",
        "machine": machine(),
        "fill_messages_per_s": known.messages / filled_s,
        **figures(lines, known),
    }


def send(fleet: Fleet, kafka: KafkaSettings, *, lifecycle: bool) -> Known:
    """Everything into the topics, in an order that a log could have."""
    with LogProducer(kafka) as producer:
        for value in fleet.prices():
            producer.send(Topic.PRICES, key_of(Topic.PRICES, value), value)
        for value in fleet.started() if lifecycle else ():
            producer.send(Topic.JOBS, key_of(Topic.JOBS, value), value)
    known = fill(fleet, kafka.bootstrap_servers, full_name(Topic.GPU, kafka.topic_prefix))
    with LogProducer(kafka) as producer:
        for value in fleet.completed() if lifecycle else ():
            producer.send(Topic.JOBS, key_of(Topic.JOBS, value), value)
    return known


def meter(
    plan: Plan, settings: Settings, store: StoreProcess | None, known: Known, directory: Path
) -> list[dict[str, Any]]:
    """Run a worker until everything is stored; returns what it said of itself."""
    out = directory / "inside.jsonl"
    out.touch()
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_PARTITIONS": str(settings.kafka.partitions),
    }
    arguments: tuple[str, ...] = ("--data", str(directory / "data"))
    if store is not None:
        env["TRAINFARE_CLICKHOUSE_URL"] = store.url
        arguments = ()
    worker = Member("worker", env, directory, arguments, (*plan.program, str(out)))
    worker.start()
    try:
        _until_stored(worker, out, known.messages)
        code = worker.stop()
    finally:
        worker.kill()
    if code != 0:
        raise WorldError(f"the worker ended with {code}:\n{worker.said()}")
    return _lines(out)


def _until_stored(worker: Member, out: Path, messages: int) -> None:
    began_s = moved_s = time.monotonic()
    stored, size = 0, -1
    while stored < messages:
        now_s = time.monotonic()
        if not worker.alive or now_s - began_s > _PATIENCE_S or now_s - moved_s > _STILL_S:
            raise WorldError(f"{stored:,} of {messages:,} messages were stored:\n{worker.said()}")
        time.sleep(_LOOK_S)
        if out.stat().st_size != size:
            size, moved_s = out.stat().st_size, time.monotonic()
            stored = max((_stored(line) for line in _lines(out)), default=0)


def _lines(out: Path) -> list[dict[str, Any]]:
    # A line that is being written has no end yet.
    whole, _, _ = out.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def _stored(line: dict[str, Any]) -> int:
    return int(line.get("stored", {}).get("records", {}).get("gpu", 0))


def figures(lines: Sequence[dict[str, Any]], known: Known) -> dict[str, Any]:
    """Rates and costs, from what a worker said of itself."""
    first = next(line["first"] for line in lines if "first" in line)
    end = next(line["stored"] for line in lines if _stored(line) >= known.messages)
    parts = next(line for line in lines if "parts" in line)
    wall_s, cpu_s = end["at_s"] - first["at_s"], end["cpu_s"] - first["cpu_s"]
    rows = sum(parts["rows"].values())
    insert_s = parts["parts"]["insert"]["wall_s"]
    return {
        "messages": known.messages,
        "samples": known.gpu_samples,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "start_cpu_s": first["cpu_s"],
        "messages_per_s": known.messages / wall_s,
        "samples_per_s": known.gpu_samples / wall_s,
        "cpu_s_per_million_samples": cpu_s / known.gpu_samples * 1e6,
        "cpu_us_per_message": cpu_s / known.messages * 1e6,
        "rss_peak_mib": parts["rss_peak_mib"],
        "rows": parts["rows"],
        "rows_per_s_inserted": rows / insert_s if insert_s else None,
        "parts": parts["parts"],
        "load_average": end["others_load"],
        "usd": int(known.cost_nano.sum()) / 1e9,
    }


def report(found: dict[str, Any]) -> str:
    """The figures for people."""
    parts = "".join(
        f"\n  {name:12}{part['count']:>8} x  wall {part['wall_s']:7.2f} s  CPU {part['cpu_s']:7.2f} s"
        f"  median {part['median_ms']:.2f} p99 {part['p99_ms']:.1f} max {part['max_ms']:.1f} ms"
        for name, part in found["parts"].items()
        if part["count"]
    )
    return (
        f"{found['scenario']}: {found['messages']:,} messages, {found['samples']:,} samples in {found['wall_s']:.2f} s: "
        f"{found['messages_per_s']:,.0f} messages/s, {found['samples_per_s']:,.0f} samples/s\n"
        f"  CPU {found['cpu_s']:.2f} s: {found['cpu_us_per_message']:.2f} us a message, "
        f"{found['cpu_s_per_million_samples']:.3f} s per million samples (start: {found['start_cpu_s']:.1f} s)\n"
        f"  RSS {found['rss_peak_mib']:.0f} MiB, load {found['load_average']:.1f}, ClickHouse {found['store']}, "
        f"totals right: {found['usd']:.9f} USD{parts}\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured and right, 1 it could not be, or the totals are wrong."""
    parser = argparse.ArgumentParser(prog="catch_up", description=__doc__)
    parser.add_argument("--scenario", choices=SHAPES, default="w2")
    parser.add_argument("--seconds", type=int, help="event time, instead of what the workload says")
    parser.add_argument("--lifecycle", action="store_true", help="jobs say that they start and end")
    parser.add_argument("--server", action="store_true", help="ClickHouse in a process of its own")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    plan = Plan(options.scenario, options.seconds, options.lifecycle, options.server)
    with tempfile.TemporaryDirectory(prefix="trainfare-bench-") as directory:
        try:
            found = run(plan, Path(directory))
        except (WorldError, WrongTotalsError) as fault:
            sys.stderr.write(f"catch_up: {fault}\n")
            return 1
    sys.stdout.write(report(found))
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
