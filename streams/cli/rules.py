"""`trainfare rules check|publish FILE`: settings of rules from a file, checked, compared and sent as records of `controls`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.counting import how_many
from streams.cli.files import must_exist, read_bounded
from streams.cli.options import settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.clock import SystemClock
from streams.errors import FileFaultsError, WrongUseError
from streams.topics import Topic

if TYPE_CHECKING:
    from streams.config.settings import Settings
    from streams.rules.file import RuleFileRecord

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="TOML with tables [[rule]].")]


def check(file: FileArgument, form: FormatOption = OutputFormat.table) -> None:
    """Check a file of rules: every fault at once, or what differs from the defaults."""
    records = read_rules(file)
    check_sql(file, records, settings_for())
    write(changes(records), form)
    if form is OutputFormat.table:
        sys.stdout.write(f"{how_many(len(records), 'rule')} in {file}: no fault\n")


def publish(
    file: FileArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be published, and publish nothing.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also remove the rules in force that the file does not have.")
    ] = False,
) -> None:
    """Publish a file of rules; workers, and replays of the log, use them from then on."""
    settings = settings_for()
    records = read_rules(file)
    check_sql(file, records, settings)
    gone: list[bytes] = []
    if prune:
        from streams.transport.controls_log import controls_by_key  # loads Kafka clients

        kept = {record.key for record in records}
        in_force = controls_by_key(settings.kafka)
        gone = [key for key, event in in_force.items() if event.kind == "rule" and key not in kept]
    write(changes(records), OutputFormat.table)
    for key in gone:
        sys.stdout.write(f"{key.decode()}: removed\n")
    if dry_run:
        sys.stdout.write(f"{how_many(len(records), 'rule')} in {file}; nothing was published\n")
        return
    from streams.transport.producer import LogProducer  # loads Kafka clients; not needed to refuse a file

    with LogProducer(settings.kafka) as producer:
        for record in records:
            producer.send(Topic.CONTROLS, record.key, record.value)
        for key in gone:
            producer.send(Topic.CONTROLS, key, None)
    sys.stdout.write(
        f"{how_many(producer.acknowledged, 'record')} acknowledged by {settings.kafka.bootstrap_servers}\n"
    )


def check_sql(file: Path, records: list[RuleFileRecord], settings: Settings) -> None:
    """Check the statements of rules by SQL.

    Raises:
        FileFaultsError: A worker would refuse some.
    """
    from streams.cli.sql_rule_check import sql_faults

    def line_of(record: RuleFileRecord) -> Callable[[str], str]:
        return lambda detail: f"{file} line {record.line}: rule/{record.event.name}: {detail}"

    if faults := sql_faults([(record.event, line_of(record)) for record in records], settings):
        raise FileFaultsError(faults)


def read_rules(file: Path, at_ms: int | None = None) -> list[RuleFileRecord]:
    """The records of a file, set at an instant; at present without one.

    Raises:
        WrongUseError: Something in it is invalid.
    """
    from streams.rules.file import rule_records  # loads the engine; not needed for --help

    must_exist([file], "name a file of rules (TOML)")
    try:
        text = read_bounded(file).decode()
    except UnicodeDecodeError:
        raise WrongUseError(f"{file}: not UTF-8; name a file of rules (TOML)") from None
    return rule_records(str(file), text, SystemClock().now_ms() if at_ms is None else at_ms)


def changes(records: list[RuleFileRecord]) -> Grid:
    """What the records change of the default settings, one setting a row."""
    from streams.rules.settings import changed_settings

    return Grid(
        ("record", "rule", "for", "setting", "default", "set_to"),
        [row for record in records for row in changed_settings(record.event)],
    )
