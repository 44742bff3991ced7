"""`trainfare dead-letters list|show`: what the meter refused, why, and what to do about it.

It must not write anything, nor let a stranger's record reach the terminal as it is.
"""

from __future__ import annotations

import base64
import sys
from typing import Annotated

import typer

from schemas.escaping import visible
from schemas.redaction import kept_raw
from streams.cli.dead_letters_advice import ADVICE, OF_FILES, field_of, pretty
from streams.cli.dead_letters_select import (
    LINES_TOPIC,
    LOG_OF_FILES,
    Letter,
    Selection,
    groups,
    letters,
    log_of,
    raw_of,
    selection,
)
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, stamp, to_json, write
from streams.cli.reading import Reader, reader
from streams.clock import SystemClock
from streams.engine.shard.dead_letters import RecordPosition, place_of
from streams.errors import TrainfareError, WrongUseError

TopicOption = Annotated[str | None, typer.Option(help="Only of this topic, e.g. gpu.")]
ReasonOption = Annotated[str | None, typer.Option(help="Only with this reason, e.g. too_late.")]
SinceOption = Annotated[
    str | None, typer.Option(help="Only from this instant of the log on: 2h, 7d (ago), or 2026-11-21T12:00.")
]
UntilOption = Annotated[str | None, typer.Option(help="Only before this instant of the log.")]
_GROUP_COLUMNS = ("topic", "reason", "records", "stored", "replayed", "first", "last", "example")
_EXAMPLE_CHARS = 90


def list_(
    topic: TopicOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many lines at most.")] = 50,
    each: Annotated[bool, typer.Option("--each", help="One line a dead letter.")] = False,
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List what was refused: by topic and reason, or each record."""
    settings = settings_for(data)
    chosen = selection(
        topic,
        reason,
        since,
        until,
        (),
        prefix=settings.kafka.topic_prefix,
        now_ms=SystemClock().now_ms(),
    )
    with reader(settings) as store:
        grid = _each(store, chosen, limit, form) if each else _grouped(store, chosen, limit, form)
    write(grid, form)


def _grouped(store: Reader, chosen: Selection, limit: int, form: OutputFormat) -> Grid:
    rows = [
        [_shown(row[name], form) if name == "example" else row[name] for name in _GROUP_COLUMNS]
        for row in groups(store, chosen, limit)
    ]
    return Grid(_GROUP_COLUMNS, rows)


def _each(store: Reader, chosen: Selection, limit: int, form: OutputFormat) -> Grid:
    columns = ("place", "time", "reason", "replayed_to", "detail")
    rows = [
        (str(one.place), one.time, one.reason, _text(one.replayed_to), _shown(one.detail, form))
        for one in letters(store, chosen, limit)
    ]
    return Grid(columns, rows)


def _shown(text: object, form: OutputFormat) -> str:
    """Short for a person; programs get all of it."""
    if form is not OutputFormat.table:
        return str(text)
    line = visible(str(text))
    return line if len(line) <= _EXAMPLE_CHARS else line[: _EXAMPLE_CHARS - 1] + "…"


def _text(place: RecordPosition | None) -> str:
    return "" if place is None else str(place)


def named(places: list[str]) -> list[RecordPosition]:
    """The places that the words of a command name."""
    found = []
    for text in places:
        place = place_of(text)
        if place is None:
            raise WrongUseError(f"{text}: no dead letter; expected TOPIC/PARTITION/OFFSET, e.g. gpu/3/41907")
        found.append(place)
    return found


def show(
    place: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="As `list --each` shows it.")
    ],
    data: DataOption = None,
    form: Annotated[
        OutputFormat, typer.Option("--format", "-f", help="table (plain text) or json.")
    ] = OutputFormat.table,
) -> None:
    """Show one refused record: why, the record itself, whether it came back, what to do."""
    (wanted,) = named([place])
    with reader(settings_for(data)) as store:
        found = list(letters(store, Selection(places=(wanted,))))
        if not found:
            raise TrainfareError(
                f"{wanted}: no such dead letter in this store; `trainfare dead-letters list --each` lists them "
                "(of a flood only a sample is stored)"
            )
        letter = found[0]
        # Earlier versions stored controls as they were.
        raw = kept_raw(wanted.topic, letter.reason, raw_of(store, [wanted])[wanted])
        again = () if letter.replayed_to is None else (letter.replayed_to,)
        refused_again = list(letters(store, Selection(places=again))) if again else []
        of_files = log_of(store) == LOG_OF_FILES
    advice = OF_FILES if of_files else ADVICE.get(letter.reason, "")
    if form is OutputFormat.json:
        sys.stdout.write(to_json(_record(letter, raw, refused_again, advice)) + "\n")
    elif form is OutputFormat.csv:
        raise WrongUseError("a dead letter is shown as table or json")
    else:
        _show(letter, raw, refused_again, advice)


def _record(letter: Letter, raw: bytes, refused_again: list[Letter], advice: str) -> dict[str, object]:
    try:
        shown: dict[str, object] = {"raw": raw.decode()}
    except UnicodeDecodeError:
        shown = {"raw_base64": base64.b64encode(raw).decode()}
    return {
        "topic": letter.place.topic,
        "partition": letter.place.partition,
        "offset": letter.place.offset,
        "time": letter.time,
        "reason": letter.reason,
        "detail": letter.detail,
        "field": field_of(letter.detail),
        "raw_is_cut": letter.is_cut,
        "replayed_at": letter.replayed_at,
        "replayed_to": _text(letter.replayed_to),
        "refused_again": refused_again[0].reason if refused_again else "",
        "advice": advice,
        **shown,
    }


def _show(letter: Letter, raw: bytes, refused_again: list[Letter], advice: str) -> None:
    place = letter.place
    facts: list[tuple[str, object]] = [
        ("dead letter", str(place)),
        ("time", letter.time),
        ("reason", letter.reason),
        ("detail", letter.detail),
        ("replayed", _came_back(letter, refused_again)),
        ("what to do", advice),
        ("record", f"{len(raw)} bytes" + (", the rest is cut off" if letter.is_cut else "")),
    ]
    if place.topic == LINES_TOPIC:
        facts.insert(1, ("line", f"line {place.offset} of file {place.partition + 1} of the replays"))
    write(Grid(("", ""), facts), OutputFormat.table)
    sys.stdout.write(f"\n{pretty(raw, field_of(letter.detail))}\n")


def _came_back(letter: Letter, refused_again: list[Letter]) -> str:
    if letter.replayed_at is None:
        return "no"
    then = f", and was refused again: {refused_again[0].reason}" if refused_again else ""
    return f"{stamp(letter.replayed_at)}, to {letter.replayed_to}{then}"
