"""`trainfare dead-letters replay`: sends refused records to their topics again after a fix, each once."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.counting import how_many
from streams.cli.dead_letters.listing import JobOption, ReasonOption, SinceOption, TopicOption, UntilOption
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from streams.cli.dead_letters.resend import Outcome, Tally


def replay(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC/PARTITION/OFFSET]...",
            help="Dead letters to send; otherwise those of the filters.",
        ),
    ] = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    job: JobOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be sent.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also send records that would be refused again, and controls.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also send records that were sent again before.")
    ] = False,
    data: DataOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Send refused records to their topics again, unchanged; each only once."""
    settings = settings_for(data)
    if not places and {topic, reason, since, until, job} == {None}:
        raise WrongUseError(
            "say which dead letters: TOPIC/PARTITION/OFFSET, --topic, --reason, --job, --since or --until; "
            "`trainfare dead-letters list` shows what there is"
        )
    from streams.cli.dead_letters.letters import letters, selection  # these load the engine and Kafka clients
    from streams.cli.dead_letters.log import LogReader
    from streams.cli.dead_letters.resend import Outcome, check_log, judged, resend
    from streams.transport.producer import LogProducer

    now_ms, prefix = SystemClock().now_ms(), settings.kafka.topic_prefix
    chosen = selection(topic, reason, since, until, places or (), prefix=prefix, now_ms=now_ms, job=job)
    with reader(settings) as store:
        check_log(store, settings)
        found = {one.place for one in letters(store, chosen)} if chosen.places else set()
        with closing(LogReader(settings.kafka)) as log:
            judge_all = partial(judged, store, log, settings, chosen, now_ms, force=force, again=again)
            asks = sys.stdin.isatty() and not yes
            if dry_run or asks:
                tally = resend(judge_all())
            if not dry_run:
                if asks and (many := _sum(tally, Outcome.SEND)):
                    what = how_many(many, "record")
                    servers = settings.kafka.bootstrap_servers
                    if not typer.confirm(f"Send {what} again to Kafka at {servers}?", err=True):
                        raise TrainfareError("nothing was sent")
                with LogProducer(settings.kafka) as producer:
                    tally = resend(judge_all(), producer)
    rows = [
        (
            "would be sent again" if dry_run and row[0] is Outcome.SEND else str(row[0]),
            *row[1:],
            many,
            example,
        )
        for row, (many, example) in sorted(tally.items())
    ]
    if rows or form is not OutputFormat.table:
        write(Grid(("outcome", "topic", "reason", "records", "example"), rows), form)
    if missing := [str(place) for place in chosen.places if place not in found]:
        raise TrainfareError(
            f"{', '.join(missing)}: no such dead letter in this store, or not of the other filters; "
            "`trainfare dead-letters list --each` lists them"
        )
    if not rows and form is OutputFormat.table:
        sys.stdout.write("no dead letter fits\n")
    total = _sum(tally, *Outcome)
    left = total - _sum(tally, Outcome.SEND, Outcome.BACK)
    if left and not dry_run:
        forced = _sum(tally, Outcome.REFUSED, Outcome.CONTROL)
        hint = f"; --force sends {forced} of them all the same" if forced else ""
        raise TrainfareError(f"{left} of {total} dead letters were not sent, as said above{hint}")


def _sum(tally: Tally, *outcomes: Outcome) -> int:
    return sum(many for (outcome, *_), (many, _) in tally.items() if outcome in outcomes)
