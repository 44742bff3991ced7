"""`trainfare apply DIR`: makes a folder of TOML files the controls in force, and shows the difference first."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import structs

from schemas.counting import how_many
from schemas.escaping import visible
from streams.address_keys import AddressKeys, address_keys, has_sealed
from streams.cli.faults import DIFFERENT
from streams.cli.options import settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.clock import SystemClock
from streams.errors import FileFaultsError, TrainfareError, WrongUseError
from streams.topics import Topic

if TYPE_CHECKING:
    from streams.controls.file import FileRecord
    from streams.controls.plan import ApplyPlan, ControlChange

_FAULTS_SHOWN: Final = 20
#: A broker that has not answered by then is waited for, and that is said.
_QUIET_S: Final = 1.5
_SET: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_SIGNS: Final = {"add": "+", "change": "~", "remove": "-", "keep": "?"}
_COLUMNS: Final = ("action", "kind", "name", "where", "field", "before", "after")


def apply(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Every *.toml below it is read; what begins with a dot is not."),
    ],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show what would change, and publish nothing; exit code 3 if anything would."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check the files alone, without Kafka: nothing is compared, and nothing published.",
        ),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Also remove what `apply` once published and no file has any more."),
    ] = False,
    set_name: Annotated[
        str,
        typer.Option(
            "--set",
            metavar="NAME",
            help="Where there are several folders: --prune removes only what was applied with this name.",
        ),
    ] = "",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Publish a folder of controls: owners, budgets, rules, silences, planned rates; all of it, or nothing if anything has no effect."""
    if not _SET.fullmatch(set_name):
        raise WrongUseError(f"--set {set_name[:80]}: expected up to 64 letters, digits and _ . -")
    settings = settings_for()
    from streams.cli.sql_rule_check import sql_faults
    from streams.controls.folder import read_folder  # loads the engine; not needed for --help
    from streams.controls.plan import plan_of, source_of

    source, now_ms = source_of(set_name), SystemClock().now_ms()
    found = read_folder(folder, source, now_ms)
    _refuse(found.faults)
    _refuse(sql_faults(((record.event, record.fault) for record in found.records), settings))
    if check:
        _say(
            form,
            f"{how_many(len(found.records), 'control')} in {how_many(found.files, 'file')}: no fault; nothing was compared with what is in force",
        )
        return
    from streams.transport.admin import check_topics, connect  # loads Kafka clients
    from streams.transport.controls_log import controls_by_key

    try:
        connect(settings.kafka, _QUIET_S)
    except TrainfareError:
        sys.stderr.write(
            f"trainfare: waiting for Kafka at {visible(settings.kafka.bootstrap_servers)}, which has what is in force; "
            "--check checks the files alone\n"
        )
    check_topics(settings.kafka, connect(settings.kafka))
    in_force, keys = controls_by_key(settings.kafka), address_keys(settings.at_rest.keys)
    if keys is None and any(has_sealed(each.value) for each in in_force.values()):
        raise WrongUseError(
            "addresses in force are sealed, and this would write plain ones: set at_rest.key (TRAINFARE_AT_REST_KEY_FILE) as workers have it"
        )
    records = found.records if keys is None else [_sealed(each, keys) for each in found.records]
    plan = plan_of(records, in_force, source, now_ms, prune=prune)
    _refuse(plan.faults)
    if form is OutputFormat.table:
        _show(plan)
    else:
        write(Grid(_COLUMNS, [row for change in plan.changes for row in _rows(change)]), form)
        for note in plan.notes:
            _say(form, note)
    if dry_run:
        _say(form, "nothing was published")
        if plan.to_publish:
            raise typer.Exit(DIFFERENT)
        return
    if not plan.to_publish:
        _say(form, "nothing to do")
        return
    from streams.transport.producer import LogProducer

    with LogProducer(settings.kafka) as producer:
        for change in plan.to_publish:
            value = None if change.record is None else change.record.value
            producer.send(Topic.CONTROLS, change.key, value)
    _say(
        form,
        f"{how_many(producer.acknowledged, 'record')} acknowledged by {settings.kafka.bootstrap_servers}",
    )


def _sealed(record: FileRecord, keys: AddressKeys) -> FileRecord:
    """The record with its addresses sealed; by one key the same are the same, so that nothing is published twice."""
    value = keys.sealed_record(record.value)
    event = structs.replace(record.event, value=keys.sealed_value(record.event.value))
    return record._replace(value=value, event=event)


def _refuse(faults: list[str] | tuple[str, ...]) -> None:
    """Raise if there are faults."""
    if faults:
        left = len(faults) - _FAULTS_SHOWN
        more = [f"and {left} more"] if left > 0 else []
        raise FileFaultsError([*faults[:_FAULTS_SHOWN], *more, "nothing was published"])


def _show(plan: ApplyPlan) -> None:
    lines: list[str] = []
    for change in plan.changes:
        lines.append(f"{_SIGNS[change.action]} {change.kind}/{change.name}  {_where(change)}")
        for field, before, after in change.fields:
            lines.append(f"    {field}: {after if change.before is None else f'{before} -> {after}'}")
    lines += plan.notes
    lines.append(
        f"{plan.count('add')} to add, {plan.count('change')} to change, {plan.count('remove')} to remove, {len(plan.unchanged)} unchanged"
        + (
            f"; left in force though in no file: {kept}, --prune removes"
            if (kept := plan.count("keep"))
            else ""
        )
        + (f"; left alone, as others published them: {plan.others}" if plan.others else "")
    )
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))


def _where(change: ControlChange) -> str:
    if change.record is None:
        return "in no file" + ("" if change.action == "remove" else ", stays in force")
    return change.record.where


def _rows(change: ControlChange) -> list[tuple[str, ...]]:
    head = change.action, change.kind, change.name, _where(change)
    return [(*head, *field) for field in change.fields] or [(*head, "", "", "")]


def _say(form: OutputFormat, line: str) -> None:
    """Write a closing line: for people on stdout, beside data for programs on stderr."""
    if form is OutputFormat.table:
        sys.stdout.write(f"{visible(line)}\n")
    else:
        sys.stderr.write(f"trainfare: {visible(line)}\n")
