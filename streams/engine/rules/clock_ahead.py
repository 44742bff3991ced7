"""`clock_ahead`: the times of a source run ahead of the log; one alert for each source, to whoever operates it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.engine.rules.evidence import minute, quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import many, sentence, short, short_instant, span
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on
from streams.engine.settings import FUTURE_MS

EVERY_MS: Final = 5 * MINUTE_MS
#: A source of which nothing came ahead for so long goes with the log again; a collector may tell of a job once an hour.
GAP_MS: Final = 90 * MINUTE_MS
_MINUTES_AT_MOST: Final = 10
#: So many nodes are named.
_NODES_SAID: Final = 2


class AheadMinute(NamedTuple):
    """What came ahead of the log from a source in a minute."""

    minute_ms: int
    records: int
    refused: int
    most_ahead_ms: int


class AheadRun(NamedTuple):
    """The minutes of a source in which records were ahead, of which no two in a row are `GAP_MS` apart."""

    source: str
    minutes: Sequence[AheadMinute]
    nodes: Sequence[str] = ()  # those that are most ahead first


def read_back_ms(thresholds: Mapping[str, float]) -> int:
    """Minutes of so long before an instant say whether the rule holds there: in a longer run it has held before."""
    return int(thresholds["minutes"]) * GAP_MS


def run_at(minutes: Sequence[AheadMinute], at_ms: int) -> Sequence[AheadMinute]:
    """The last run of a source's minutes (ascending) that is not over at an instant; empty if there is none."""
    before = [each for each in minutes if each.minute_ms < at_ms]
    end_ms, first = at_ms, len(before)
    while first and before[first - 1].minute_ms >= end_ms - GAP_MS:
        first -= 1
        end_ms = before[first].minute_ms
    return before[first:]


def finding(of: LedgerSettings, run: AheadRun, at_ms: int) -> LedgerFinding:
    """Return the sentence and the evidence of a source that is ahead."""
    records, refused = sum(each.records for each in run.minutes), sum(each.refused for each in run.minutes)
    ahead_ms, since_ms = max(each.most_ahead_ms for each in run.minutes), run.minutes[0].minute_ms
    became = (
        "refused" if refused == records else f"{many(refused)} refused" if refused else "metered as they say"
    )

    def said(at_most: int) -> str:
        more = len(run.nodes) - _NODES_SAID
        nodes = ", ".join(short(each, at_most) for each in run.nodes[:_NODES_SAID])
        hosts = f"{nodes} and {more} more" if more > 0 else nodes or "its host"
        return (
            f"{short(run.source, at_most)}: {many(records)} records since {short_instant(since_ms, at_ms)} UTC are up to"
            f" {span(ahead_ms)} ahead of the log, {became}; synchronise the clock of {hosts} (NTP, chrony)"
        )

    return LedgerFinding(
        "clock_ahead",
        of.severity,
        "source",
        run.source,
        at_ms,
        sentence(said),
        "SELECT minute, node, topic, records, refused, most_ahead_ms / 1000 AS most_ahead_s"
        f" FROM records_ahead FINAL WHERE source = {quoted(run.source)} AND minute >= {minute(since_ms)}"
        f" AND minute < {minute(at_ms)} ORDER BY most_ahead_s DESC, minute, node, topic, shard LIMIT 20",
        ahead_ms / FUTURE_MS,
        margins=(*margins(of.thresholds, run),),
    )


def margins(of: Mapping[str, float], run: AheadRun) -> list[Margin]:
    """Return in how many minutes records of the source were ahead."""
    what = "minutes with records more than 5 min ahead of the log"
    return [from_threshold_on(what, float(len(run.minutes)), of["minutes"])]


RULE: Final = LedgerRule(
    name="clock_ahead",
    title="Clock ahead",
    severity=TICKET,
    about="`source`",
    holds="in 3 minutes, less than 90 min apart, records of the source came that are more than 5 min ahead of"
    " [log time](events.md#identity-and-duplicates); until none has come for 90 min",
    runbook="runbook.md#clock-ahead",
    thresholds={
        "minutes": Threshold(
            3,
            1,
            _MINUTES_AT_MOST,
            "minutes of the log in which records of the source were ahead",
            is_count=True,
        )
    },
    each="source",
    operator="sources",
    finding=finding,
    margins=margins,
)
