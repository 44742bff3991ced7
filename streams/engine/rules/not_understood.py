"""`not_understood`: entries that a collector or reader of prices has read are not understood; one alert for each cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from streams.accounts.causes import remedy_of
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.formatting import sentence, short
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, from_threshold_on


class SourceCause(NamedTuple):
    """Entries that are not understood for one reason."""

    entries: int
    example: str


class SourceState(NamedTuple):
    """A record of a source: how much it has read, and which causes stand; `at_ms` is its log time."""

    name: str
    offset: int
    at_ms: int
    read: int
    standing: Mapping[str, SourceCause]


def subject_of(name: str, reason: str) -> str:
    """Return the name of the subject of a cause."""
    return f"{name}/{reason}"


def finding(record: SourceState, reason: str, at_ms: int, severity: str) -> LedgerFinding:
    """Return the sentence and the evidence of a cause that a record names."""
    cause, remedy = record.standing[reason], remedy_of(reason, record.name)

    def said(at_most: int) -> str:
        example = f", first: {short(cause.example, 2 * at_most)}" if cause.example else ""
        return f"{short(record.name, at_most)}: {cause.entries} of {record.read} entries not understood ({reason}){example}"

    summary = sentence(said, remedy)
    if not remedy or not summary.endswith(remedy):
        summary = sentence(lambda at_most: f"{said(at_most)}; `trainfare sources` says what mends it")
    return LedgerFinding(
        "not_understood",
        severity,
        "source",
        subject_of(record.name, reason),
        at_ms,
        summary,
        f"SELECT time, polled, polls, entries, example, {quoted(remedy)} AS mend FROM sources FINAL"
        f" WHERE name = {quoted(record.name)} AND reason = {quoted(reason)} ORDER BY offset DESC LIMIT 20",
        cause.entries / record.read if record.read else 0.0,
        margins=(*margins({}, record, reason),),
    )


def margins(_of: Mapping[str, float], record: SourceState, reason: str) -> list[Margin]:
    """Return how many entries of the cause a record has."""
    entries = record.standing[reason].entries if reason in record.standing else 0
    return [from_threshold_on("entries that are not understood", float(entries), 1)]


RULE: Final = LedgerRule(
    name="not_understood",
    title="Not understood",
    severity=TICKET,
    about="`source`",
    holds="entries that a [collector or reader of prices](sources.md#what-becomes-of-each-entry) has read are not understood; one"
    " alert for each source and cause",
    runbook="sources.md#what-becomes-of-each-entry",
    each="cause of a source",
    operator="sources",
    finding=finding,
    margins=margins,
)
