"""`silent_source`: a collector that has reported regularly has said nothing for long; one alert for each source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS
from streams.engine.rules.evidence import minute, quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import sentence, short, short_instant, span
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on

#: A source with fewer records does not report regularly: it may have been read once, by hand.
LEAST_RECORDS: Final = 3
#: So many of its last records say how often it reports.
LAST_RECORDS: Final = 10
#: So many times as long as usual is long.
TIMES_USUAL: Final = 3
#: After so long nobody needs the alert.
OVER_MS: Final = 7 * DAY_MS


class SourceSilence(NamedTuple):
    """A source says nothing from its last record on; all times are log times in ms."""

    name: str
    since_ms: int  # its last record
    records: int  # of its last ones, by which it is known how often it reports
    usual_ms: int  # the median between them
    long_ms: int  # the rule holds from here on after the last record
    from_ms: int  # the first whole minute at which the rule holds
    until_ms: int  # the whole minute at which it does no longer


def long_ms(of: Mapping[str, float]) -> int:
    """For how long a source has to say nothing at least, however often it reports."""
    return round(of["hours"] * HOUR_MS)


def finding(of: LedgerSettings, silence: SourceSilence, at_ms: int) -> LedgerFinding:
    """Return the sentence and the evidence of a source that is silent at a whole minute."""

    def said(at_most: int) -> str:
        since = short_instant(silence.since_ms, at_ms)
        return (
            f"{short(silence.name, at_most)}: silent since {since} UTC, it used to report every {span(silence.usual_ms)}; look at"
            " its process and its right to write, or if it is gone for good: trainfare sources --forget NAME"
        )

    silent_ms = at_ms - silence.since_ms
    return LedgerFinding(
        "silent_source",
        of.severity,
        "source",
        silence.name,
        at_ms,
        sentence(said),
        "SELECT time, max(polled) AS last_polled, max(polls) AS polls_before, sum(entries) AS read, max(removed) AS forgotten"
        f" FROM sources FINAL WHERE name = {quoted(silence.name)} AND time < {minute(at_ms)}"
        f" GROUP BY time, offset ORDER BY time DESC, offset DESC LIMIT {LAST_RECORDS}",
        silent_ms / silence.usual_ms if silence.usual_ms else 0.0,
        margins=(*margins(of.thresholds, silence, at_ms),),
    )


def margins(_of: Mapping[str, float], silence: SourceSilence, at_ms: int) -> list[Margin]:
    """Return how many records say how often the source reports, and for how long it has said nothing at a whole minute."""
    silent_hours = (at_ms - silence.since_ms) / HOUR_MS
    return [
        from_threshold_on("records of the source", float(silence.records), LEAST_RECORDS),
        from_threshold_on("hours without a record", silent_hours, silence.long_ms / HOUR_MS),
    ]


RULE: Final = LedgerRule(
    name="silent_source",
    title="Silent source",
    severity=TICKET,
    about="`source`",
    holds="a [collector](sources.md#silent-sources) that has reported 3 times or more has said nothing for 3 h, and for 3 times as"
    " long as usual between its last 10 records; until it reports, is forgotten, or has been silent for 7 days",
    runbook="sources.md#silent-sources",
    thresholds={
        "hours": Threshold(
            3, 1, 144, "hours without a record of the source; 3 times as long as usual at least"
        )
    },
    each="source",
    operator="sources",
    finding=finding,
    margins=margins,
)
