"""How fast one worker meters a full log, the whole engine: `python -m loadtest.catch_up --scenario w2`.

The log is filled before the worker starts. The clock runs from the first record that is folded to the last
one whose rows and snapshot are in ClickHouse.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from loadtest.catch_up_figures import line_of, round_of, stored_of, summary
from loadtest.fleet import SHAPES, Fleet, fill, recent, workload
from loadtest.known import Known
from loadtest.latency_world import ROOT, WorldError, broker, end_in_order, machine, settings_for
from loadtest.saying import keep_figures
from loadtest.soak_world import Member
from loadtest.verdict import WrongTotalsError, check
from sinks.clickhouse import Embedded, Target
from streams.config.settings import ClickHouseSettings, KafkaSettings, Settings
from streams.keys import key_of
from streams.replay.broker import EmbeddedBroker
from streams.topics import Topic, full_name
from streams.transport.admin import DEAD_LETTER_TOPIC
from tests.store_process import StoreProcess

_PATIENCE_S: Final = 900.0
_STILL_S: Final = 300.0
_LOOK_S: Final = 0.1
_FLUSH_S: Final = 30.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is sent, how it is metered and how often."""

    workload: str
    #: Event time, instead of what the workload says.
    seconds: int | None = None
    #: Whether jobs say that they start and end; else all are metered by their samples.
    lifecycle: bool = False
    #: A ClickHouse in a process of its own; else inside the worker, whose CPU then holds it.
    server: bool = False
    #: Kafka inside this process: for a quick look, without Java.
    embedded_broker: bool = False
    rounds: int = 1
    #: Whether librdkafka counts the same log after each round.
    limit: bool = True
    #: A module that runs a worker and reports as `loadtest.inside` does.
    program: tuple[str, ...] = ("loadtest.inside",)


@dataclass(frozen=True)
class Log:
    """A log that is full, and what it must come to."""

    settings: Settings
    known: Known
    wanted: Mapping[str, int]  # records by topic


def run(plan: Plan, directory: Path, say: Say = lambda _: None) -> dict[str, Any]:
    """Fill once, meter as often as planned, compare each time; returns the figures."""
    with filled(plan, directory, say) as log:
        rounds, limits = [], []
        for number in range(plan.rounds):
            say(f"round {number + 1} of {plan.rounds}: a worker meters {log.known.messages:,} messages")
            rounds.append(_round(plan, log, directory / f"round-{number}"))
            if plan.limit:
                say(f"round {number + 1} of {plan.rounds}: librdkafka counts them")
                limits.append(_limit(log))
    about = {
        "kind": "catch_up",
        "workload": plan.workload,
        "seconds": plan.seconds or SHAPES[plan.workload].seconds,
        "lifecycle": plan.lifecycle,
        "store": "server" if plan.server else "embedded",
        "broker": "embedded" if plan.embedded_broker else "kafka",
        "messages": log.known.messages,
        "samples": log.known.gpu_samples,
        "usd": f"{int(log.known.cost_nano.sum()) / 1e9:.9f}",
    }
    return {**about, **summary(rounds, limits)}


@contextmanager
def filled(plan: Plan, directory: Path, say: Say) -> Iterator[Log]:
    """A broker whose log holds all of the plan's workload."""
    with ExitStack() as stack:
        directory.mkdir(parents=True, exist_ok=True)
        if plan.embedded_broker:
            if plan.program != Plan.program:
                raise WorldError("another program cannot run a worker on the embedded broker")
            settings = _embedded_settings(stack.enter_context(EmbeddedBroker()))
        else:
            say("starting Kafka")
            kafka = stack.enter_context(broker(directory / "kafka"))
            settings = settings_for(kafka.bootstrap_servers, directory / "data")
        seconds = plan.seconds or SHAPES[plan.workload].seconds
        fleet = workload(plan.workload, recent(seconds), settings.kafka.partitions, seconds)
        say(f"sending {fleet.shape.messages:,} messages")
        known = send(fleet, settings.kafka, lifecycle=plan.lifecycle)
        wanted = {"gpu": known.messages, "jobs": 2 * len(known.jobs) if plan.lifecycle else 0}
        yield Log(settings, known, wanted)


def _embedded_settings(mock: EmbeddedBroker) -> Settings:
    kafka = mock.host(KafkaSettings(), "bench")
    mock.create_topic(full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix), 1)
    return Settings(kafka=kafka, clickhouse=ClickHouseSettings())


def send(fleet: Fleet, kafka: KafkaSettings, *, lifecycle: bool) -> Known:
    """Everything into the topics, in an order that a log could have."""
    _tell(kafka, Topic.PRICES, fleet.prices())
    if lifecycle:
        _tell(kafka, Topic.JOBS, fleet.started())
    try:
        known = fill(fleet, kafka.bootstrap_servers, full_name(Topic.GPU, kafka.topic_prefix))
    except OSError as fault:
        raise WorldError(f"the log could not be filled: {fault}") from None
    if lifecycle:
        _tell(kafka, Topic.JOBS, fleet.completed())
    return known


def _tell(kafka: KafkaSettings, topic: Topic, values: Iterable[bytes]) -> None:
    """Send a few events, keyed; the topics are known to be there."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"})
    for value in values:
        producer.produce(full_name(topic, kafka.topic_prefix), value, key_of(topic, value))
    if producer.flush(_FLUSH_S):
        raise WorldError(f"not all events of {topic} were acknowledged")


def _round(plan: Plan, log: Log, directory: Path) -> dict[str, Any]:
    """One worker with a group and a store of its own, until everything is stored; its totals are compared."""
    directory.mkdir()
    with ExitStack() as stack:
        store = stack.enter_context(StoreProcess(directory / "store")) if plan.server else None
        out = directory / "inside.jsonl"
        out.touch()
        env = environment(log.settings.kafka, directory.name)
        if store is not None:
            env["TRAINFARE_CLICKHOUSE_URL"] = store.url
        arguments = () if store is not None else ("--data", str(directory / "data"))
        program = ("loadtest.quick",) if plan.embedded_broker else plan.program
        worker = Member("worker", env, directory, arguments, (*program, str(out)))
        worker.start()
        try:
            _until_stored(worker, out, log.wanted)
            code = worker.stop()
        finally:
            worker.kill()
        if code != 0:
            raise WorldError(f"the worker ended with {code}:\n{worker.said()}")
        target: Target = Embedded(data_dir=directory / "data") if store is None else store.target()
        check(target, log.known)
        return round_of(lines_of(out), log.known, log.wanted)


def environment(kafka: KafkaSettings, group_id: str) -> dict[str, str]:
    """The settings of a worker of that group, where they are not the defaults."""
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_PARTITIONS": str(kafka.partitions),
        "TRAINFARE_KAFKA_GROUP_ID": group_id,
    }
    if kafka.group_instance_id is not None:
        env["TRAINFARE_KAFKA_GROUP_INSTANCE_ID"] = kafka.group_instance_id
    return env


def _until_stored(worker: Member, out: Path, wanted: Mapping[str, int]) -> None:
    began_s = moved_s = time.monotonic()
    size = -1
    last: dict[str, Any] = {}
    while not stored_of(last, wanted):
        now_s = time.monotonic()
        if not worker.alive or now_s - began_s > _PATIENCE_S or now_s - moved_s > _STILL_S:
            raise WorldError(f"stored {last.get('stored')}, want {dict(wanted)}:\n{worker.said()}")
        time.sleep(_LOOK_S)
        if out.stat().st_size != size:
            size, moved_s = out.stat().st_size, time.monotonic()
            last = line_of(lines_of(out), wanted) or {}


def lines_of(out: Path) -> list[dict[str, Any]]:
    """What a worker has said of itself so far."""
    # A line that is being written has no end yet.
    whole, _, _ = out.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def _limit(log: Log) -> dict[str, float]:
    kafka = log.settings.kafka
    topic = full_name(Topic.GPU, kafka.topic_prefix)
    command = [
        "--bootstrap",
        kafka.bootstrap_servers,
        "--topic",
        topic,
        "--messages",
        str(log.known.messages),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "loadtest.limit", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise WorldError(f"librdkafka could not count the log:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def report(found: Mapping[str, Any]) -> str:
    """The median round for people."""
    median, ratios = found["median"], found["ratios"]
    head = (
        f"{found['workload']}: {found['messages']:,} messages, {found['samples']:,} samples, "
        f"totals right: {found['usd']} USD\n"
        f"  stored in {median['wall_s']:.2f} s: {median['messages_per_s']:,.0f} messages/s, "
        f"{median['samples_per_s']:,.0f} samples/s (median of {len(found['rounds'])})\n"
        f"  CPU {median['cpu_s']:.2f} s: {median['cpu_us_per_message']:.2f} us a message, "
        f"{median['cpu_s_per_million_samples']:.3f} s per million samples (start: {median['start_cpu_s']:.1f} s); "
        f"RSS {median['rss_peak_mib']:.0f} MiB; "
        f"{median['minor_faults_per_million_messages']:,.0f} minor faults per million messages; load {median['load']:.1f}"
    )
    lines = [head]
    if ratios:
        lines.append("  " + ", ".join(f"{name} {value:.3f}" for name, value in ratios.items()))
    for name, part in found["rounds"][-1]["parts"].items():
        if part["count"]:
            lines.append(
                f"  {name:12}{part['count']:>8} x  wall {part['wall_s']:7.2f} s  CPU {part['cpu_s']:7.2f} s  "
                f"median {part['median_ms']:.2f} p99 {part['p99_ms']:.1f} max {part['max_ms']:.1f} ms"
            )
    return "\n".join(lines) + "\n"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 0 measured and right, 1 it could not be, or the totals are wrong."""
    parser = argparse.ArgumentParser(prog="catch_up", description=__doc__)
    parser.add_argument("--scenario", choices=SHAPES, default="w2")
    parser.add_argument("--seconds", type=int, help="event time, instead of what the workload says")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--lifecycle", action="store_true", help="jobs say that they start and end")
    parser.add_argument("--server", action="store_true", help="ClickHouse in a process of its own")
    parser.add_argument("--embedded-broker", action="store_true", help="no Java; small workloads only")
    parser.add_argument("--limit", action="store_true", help="librdkafka counts the same log")
    parser.add_argument("--program", default="loadtest.inside", help="the module that runs the worker")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    plan = Plan(
        options.scenario, options.seconds, options.lifecycle, options.server, options.embedded_broker, options.rounds,
        options.limit, tuple(options.program.split()),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="trainfare-bench-") as directory:
        try:
            found = run(plan, Path(directory), _say)
        except (WorldError, WrongTotalsError) as fault:
            sys.stderr.write(f"catch_up: {fault}\n")
            return 1
    found |= {"machine": machine(), "load_average": os.getloadavg()[0]}
    sys.stdout.write(report(found))
    keep_figures(options.out, found)
    return 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
