"""`trainfare dead-letters list|show`: what the meter refused, why, and what to do about it."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from schemas.redaction import kept_raw
from streams.accounts.refused import advice_of
from streams.cli.dead_letters.advice import field_of, pretty
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, say_full, say_none, stamp, to_json, write
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.cli.dead_letters.letters import Letter

TopicOption = Annotated[str | None, typer.Option(help="Only of this topic, e.g. gpu.")]
ReasonOption = Annotated[str | None, typer.Option(help="Only with this reason, e.g. too_late.")]
SinceOption = Annotated[
    str | None, typer.Option(help="Only from this instant of the log on: 2h, 7d (ago), or 2026-11-21T12:00.")
]
UntilOption = Annotated[str | None, typer.Option(help="Only before this instant of the log.")]
JobOption = Annotated[str | None, typer.Option(help="Only records that name this job.")]
_TEXT_MAX_CHARS = 90


def list_(
    topic: TopicOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    job: JobOption = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of lines.")] = 50,
    each: Annotated[bool, typer.Option("--each", help="One line per dead letter.")] = False,
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List what was refused: by topic and reason, or each record."""
    from streams.cli.dead_letters.letters import groups, letters, selection  # loads the engine

    settings = settings_for(data)
    now_ms, prefix = SystemClock().now_ms(), settings.kafka.topic_prefix
    chosen = selection(topic, reason, since, until, (), prefix=prefix, now_ms=now_ms, job=job)
    with reader(settings) as store:
        if each:
            listed = Grid(
                ("place", "time", "reason", "replayed_to", "detail"),
                [
                    (str(one.place), one.time, one.reason, str(one.replayed_to or ""), one.detail)
                    for one in letters(store, chosen, limit)
                ],
            )
        else:
            listed = groups(store, chosen, limit)
    say_none(listed.rows, form, "the store has no refused record that is like this")
    say_full(listed.rows, form, limit)
    if form is OutputFormat.table:
        listed = Grid(listed.columns, [(*row, _short(visible(str(text)))) for *row, text in listed.rows])
    write(listed, form)


def _short(line: str) -> str:
    return line if len(line) <= _TEXT_MAX_CHARS else line[: _TEXT_MAX_CHARS - 1] + "…"


def show(
    place: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="As `list --each` shows it.")
    ],
    data: DataOption = None,
    form: Annotated[
        OutputFormat, typer.Option("--format", "-f", help="table (plain text) or json.")
    ] = OutputFormat.table,
) -> None:
    """Show one refused record: the reason, the record, whether it was sent again, what to do."""
    from streams.cli.dead_letters.letters import letter_at, log_of, named, raw_of

    wanted = named(place)
    if form is OutputFormat.csv:
        raise WrongUseError("a dead letter is shown as table or json")
    with reader(settings_for(data)) as store:
        letter = letter_at(store, wanted)
        if letter is None:
            raise TrainfareError(
                f"{wanted}: no such dead letter in this store; `trainfare dead-letters list --each` lists them "
                "(of a flood only a sample is stored)"
            )
        # Earlier versions stored controls unredacted.
        raw = kept_raw(wanted.topic, letter.reason, raw_of(store, [wanted])[wanted])
        refused = None if letter.replayed_to is None else letter_at(store, letter.replayed_to)
        advice = advice_of(letter.reason, log_of(store) or "")
    refused_again = "" if refused is None else refused.reason
    if form is OutputFormat.json:
        sys.stdout.write(to_json(_record(letter, raw, refused_again, advice)) + "\n")
    else:
        _show(letter, raw, refused_again, advice)


def _record(letter: Letter, raw: bytes, refused_again: str, advice: str) -> dict[str, object]:
    try:
        shown: dict[str, object] = {"raw": raw.decode()}
    except UnicodeDecodeError:
        shown = {"raw_base64": base64.b64encode(raw).decode()}
    return {
        **letter.place._asdict(),
        "time": letter.time,
        "reason": letter.reason,
        "detail": letter.detail,
        "field": field_of(letter.detail),
        "raw_is_cut": letter.is_cut,
        "replayed_at": letter.replayed_at,
        "replayed_to": str(letter.replayed_to or ""),
        "refused_again": refused_again,
        "advice": advice,
        **shown,
    }


def _show(letter: Letter, raw: bytes, refused_again: str, advice: str) -> None:
    from streams.cli.dead_letters.letters import LINES_TOPIC

    place, replayed = letter.place, "no"
    if letter.replayed_at is not None:
        then = refused_again and f", and was refused again: {refused_again}"
        replayed = f"{stamp(letter.replayed_at)}, to {letter.replayed_to}{then}"
    facts: list[tuple[str, object]] = [
        ("dead letter", str(place)),
        ("time", letter.time),
        ("reason", letter.reason),
        ("detail", letter.detail),
        ("replayed", replayed),
        ("what to do", advice),
        ("record", f"{how_many(len(raw), 'byte')}" + (", the rest is cut off" if letter.is_cut else "")),
    ]
    if place.topic == LINES_TOPIC:
        facts.insert(1, ("line", f"line {place.offset} of file {place.partition + 1} of the replays"))
    write(Grid(("", ""), facts), OutputFormat.table)
    sys.stdout.write(f"\n{pretty(raw, field_of(letter.detail))}\n")
