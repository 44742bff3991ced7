"""`trainfare sources`: what became of all that each collector and reader of prices has read, and what mends the rest."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from schemas.escaping import visible
from schemas.validate_sources import KEY_PREFIX, NOT_UNDERSTOOD
from streams.accounts.listed import ACCOUNTS, REASONS, listed
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, say_full, to_json, write
from streams.cli.reading import reader
from streams.topics import Topic

_TOP: Final = 3


def sources(
    data: DataOption = None,
    forget: Annotated[
        str,
        typer.Option("--forget", metavar="NAME", help="Forget a source that is gone (publishes to Kafka)."),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of sources.")] = 1_000,
    form: FormatOption = OutputFormat.table,
    is_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show each source that was read: when, how much of it is metered, free by a rule or not understood, and what mends it.

    Figures are sums over the polls since the record before: a source says so when its causes change, and once an hour.
    """
    if forget:
        _forget(forget)
        return
    form = OutputFormat.json if is_json else form
    with reader(settings_for(data)) as store:
        found = listed(store.records(ACCOUNTS, most=limit), store.records(REASONS, most=limit))
    if form is OutputFormat.json:
        sys.stdout.write(to_json(found) + "\n")
        return
    say_full(found, form, limit)
    heads = ("source", "polled", "polls", "read", "metered", "free", "not_understood", "causes")
    write(Grid(heads, [_row(each) for each in found]), form)
    if form is OutputFormat.table:
        _say(found)


def _row(account: dict[str, Any]) -> tuple[object, ...]:
    causes = [
        f"{each['reason']} {each['entries']}"
        for each in account["entries"]
        if each["entry_class"] == NOT_UNDERSTOOD
    ]
    more = f", {len(causes) - _TOP} more" if len(causes) > _TOP else ""
    figures = (account[name] for name in ("polls", "read", "metered", "free", "not_understood"))
    return account["name"], account["polled"], *figures, ", ".join(causes[:_TOP]) + more


def _say(found: list[dict[str, Any]]) -> None:
    """Name each cause with an example and what mends it."""
    if not found:
        sys.stdout.write(
            "no source has said what it read: collectors and `prices load` do, once they publish\n"
        )
    for account in found:
        for each in account["entries"]:
            if each["entry_class"] == NOT_UNDERSTOOD:
                over = "" if each["standing"] else " (no more)"
                example = f"; first: {each['example']}" if each["example"] else ""
                text = f"{account['name']}: {each['entries']} {each['reason']}{over}{example}; {each['says']}"
                sys.stdout.write(f"{visible(text)}\n")


def _forget(name: str) -> None:
    from streams.transport.producer import LogProducer  # loads Kafka clients

    kafka = settings_for().kafka
    with LogProducer(kafka) as producer:
        producer.send(Topic.CONTROLS, KEY_PREFIX + name.encode(), None)
    sys.stdout.write(f"{visible(name)}: forgotten, acknowledged by {kafka.bootstrap_servers}\n")
