"""`trainfare dead-letters replay`: refused records into their topics again, after a fix; each once.

It must not write to the store: the meter notes what came back when it reads it, so the log alone says what was sent.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.dead_letters import ReasonOption, SinceOption, TopicOption, UntilOption, named
from streams.cli.dead_letters_judge import FORCED, Outcome
from streams.cli.dead_letters_select import selection
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.config.settings import Settings
from streams.engine.shard.dead_letters import RecordPosition
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.cli.dead_letters_run import Run


def replay(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC/PARTITION/OFFSET]...", help="These; else those of the filters."),
    ] = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Send also what would be refused again, and controls.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Send also what was sent again before.")] = False,
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Send refused records again, as they were, into their topics; what came back already is not sent."""
    settings = settings_for(data)
    if not places and topic is None and reason is None and since is None and until is None:
        raise WrongUseError(
            "say which dead letters: TOPIC/PARTITION/OFFSET, --topic, --reason, --since or --until; "
            "`trainfare dead-letters list` shows what there is"
        )
    from streams.cli.dead_letters_log import LogReader
    from streams.cli.dead_letters_run import Run, check_log  # loads Kafka clients

    now_ms = SystemClock().now_ms()
    given = named(places or [])
    chosen = selection(topic, reason, since, until, given, prefix=settings.kafka.topic_prefix, now_ms=now_ms)
    with reader(settings) as store:
        check_log(store, settings)
        with LogReader(settings.kafka) as log:
            run = Run(store, log, settings, chosen, now_ms, force=force, again=again)
            asks = sys.stdin.isatty() and not yes
            counts = run.count() if dry_run or asks else None
            if counts is not None and asks and not dry_run and counts[Outcome.SEND]:
                _confirm(counts, settings)
            if not dry_run:
                counts = run.send()
    assert counts is not None
    _report(run, counts, given, form, dry_run=dry_run)


def _confirm(counts: Counter[Outcome], settings: Settings) -> None:
    many = counts[Outcome.SEND]
    what = "1 record" if many == 1 else f"{many} records"
    if not typer.confirm(f"Send {what} again to Kafka at {settings.kafka.bootstrap_servers}?", err=True):
        raise TrainfareError("nothing was sent")


def _report(
    run: Run, counts: Counter[Outcome], given: list[RecordPosition], form: OutputFormat, *, dry_run: bool
) -> None:
    """Say what became of them; some that could not be sent make it a failure."""
    columns = ("outcome", "topic", "reason", "records", "example")
    rows = [
        (
            _worded(outcome, dry_run),
            topic,
            reason,
            run.rows[outcome, topic, reason],
            _line(run, (outcome, topic, reason)),
        )
        for outcome, topic, reason in sorted(run.rows)
    ]
    if rows or form is not OutputFormat.table:
        write(Grid(columns, rows), form)
    missing = [place for place in given if place not in run.found]
    if missing:
        raise TrainfareError(
            f"{', '.join(map(str, missing))}: no such dead letter in this store, or not of the other filters; "
            "`trainfare dead-letters list --each` lists them"
        )
    if not rows and form is OutputFormat.table:
        sys.stdout.write("no dead letter fits\n")
    left = sum(many for outcome, many in counts.items() if outcome not in (Outcome.SEND, Outcome.BACK))
    if left and not dry_run:
        forced = sum(counts[outcome] for outcome in FORCED)
        hint = f"; --force sends {forced} of them all the same" if forced else ""
        raise TrainfareError(
            f"{left} of {sum(counts.values())} dead letters were not sent, as said above{hint}"
        )


def _worded(outcome: Outcome, dry_run: bool) -> str:
    return "would be sent again" if dry_run and outcome is Outcome.SEND else str(outcome)


def _line(run: Run, row: tuple[Outcome, str, str]) -> str:
    return run.examples[row]
