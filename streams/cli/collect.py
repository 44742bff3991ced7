"""`trainfare collect NAME`: reads an outside system and publishes what it reports as events."""

from __future__ import annotations

import random
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from schemas.counting import how_many
from streams.cli.options import settings_for
from streams.clock import SystemClock
from streams.collect.collector import Collector, FindsUnusedOptions
from streams.collect.registry import COLLECTORS, check_sample, open_collector
from streams.errors import WrongUseError
from streams.log import configure_logging


def collect(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The collector; `trainfare collect list` shows all.")
    ],
    config: Annotated[
        Path, typer.Option("--config", metavar="FILE", help="TOML file with a table [NAME].")
    ] = Path("collect.toml"),
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Where the position is stored; default NAME.position."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the events of one poll; publish and store nothing.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check", metavar="FILE", help="Print the events that a sample would make (kafka, json-files)."
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--files", metavar="PATTERN", help="Files to read, of a collector of files; may be repeated."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILES]...", help="More of them, where a shell replaced a pattern by names."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Poll once and exit.")] = False,
    to: Annotated[
        str, typer.Option("--to", metavar="URL", help="Publish over HTTP to this worker instead of Kafka.")
    ] = "",
    called: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="What `trainfare sources` calls it; default NAME, of a collector of one node NAME@HOST.",
        ),
    ] = "",
    metrics: Annotated[str, typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics there.")] = "",
) -> None:
    """Collect events from an outside system and publish them."""
    if name == "list":
        for each, known in COLLECTORS.items():
            sys.stdout.write(f"{each:16}{known.about}\n")
        return
    if check is not None:
        events = check_sample(name, config, check)
        from streams.collect.publisher import PrintingPublisher  # not needed to refuse a file

        PrintingPublisher().publish(events)
        return
    if more and not files:
        raise WrongUseError(f"collect {name} {more[0]}: name files after --files")
    collector = open_collector(
        name,
        config,
        lambda: settings_for().kafka,
        files=[*(files or ()), *(more or ())],
        is_one_poll=once or dry_run,
        may_write=not dry_run,
    )
    from prometheus_client import CollectorRegistry, start_http_server  # not needed to refuse a file

    from streams.collect.ingest_publisher import IngestPublisher
    from streams.collect.metrics import CollectorMetrics
    from streams.collect.position_file import PositionFile
    from streams.collect.publisher import KafkaPublisher, PrintingPublisher, Publisher
    from streams.collect.runner import CollectorRunner
    from streams.collect.source_report import SourceReport
    from streams.transport.producer import LogProducer

    registry = CollectorRegistry()
    counts, clock = CollectorMetrics(collector.name, registry), SystemClock()
    if dry_run:
        trial = CollectorRunner(
            collector,
            PrintingPublisher(),
            None,
            clock,
            counts,
            jitter_ratio=random.random,
            logs_causes=False,
        )
        trial.run_once()
        sys.stderr.write(f"{trial.account.shown(name, str(config))}\n")
        _say_unused(collector, f"{config} [{name}]")
        return
    settings = settings_for()
    configure_logging(settings.log)
    publisher: Publisher
    if to:
        token = settings.web.write_token
        publisher = IngestPublisher(to, token.get_secret_value() if token is not None else "")
    else:
        publisher = KafkaPublisher(lambda: LogProducer(settings.kafka))
    with PositionFile(state or Path(f"{name}.position"), collector.name) as positions:
        positions.load()  # before its report is asked for
        report = SourceReport(called or _called(name), publisher.publish, positions)
        runner = CollectorRunner(
            collector,
            publisher,
            positions,
            clock,
            counts,
            jitter_ratio=random.random,
            report=report,
            logs_causes=not once,
        )
        if once:
            published = runner.run_once()
            sys.stdout.write(
                f"{how_many(published, 'event')} acknowledged by {to or settings.kafka.bootstrap_servers}\n"
            )
            sys.stderr.write(f"{runner.account.shown(name, str(config))}\n")
            return
        if metrics:
            host, _, port = metrics.rpartition(":")
            if not (host and port.isdigit() and int(port) < 2**16):
                raise WrongUseError(f"--metrics {metrics}: expected HOST:PORT, e.g. 127.0.0.1:9109")
            start_http_server(int(port), host, registry)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stop.set())
        runner.run(lambda wait_ms: stop.wait(wait_ms / 1000))


def _called(name: str) -> str:
    """What a collector is called beside others: of one node by its host, for there is one on each."""
    return f"{name}@{socket.gethostname()}" if COLLECTORS[name].of_one_node else name


def _say_unused(collector: Collector, where: str) -> None:
    """Name what the options name and nothing had that was read."""
    if isinstance(collector, FindsUnusedOptions):
        for each in collector.unused_options():
            sys.stderr.write(f"unused: {where} {each}\n")
