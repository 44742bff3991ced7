"""What the sentence of a firing alert says of what is to come: written once, and put right wherever it is shown later.

A sentence is stored as of the instant of its figures. Shown later, its past stays as it is; what is to come is said as of
then, or left out where nobody knows how it goes on.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.rules import budget_forecast
from streams.engine.rules.burn_cause import IS_BACK, SCALE_BACK
from streams.engine.rules.formatting import SENTENCE_AT_MOST, rounded_usd, short_instant, unheeded

#: So long after the instant of its figures a sentence may be shown as it is.
CURRENT_MS: Final = 300_000
#: How a forecast begins, and what it becomes when it is no forecast any more.
WILL: Final = "will use up "
_WAS_TO: Final = "was to use up "
_FORECAST: Final = budget_forecast.BUDGET_FORECAST
_INSTANT: Final = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d UTC"
# As `unheeded` says it, after `else` or of a purchase; or cut off, at the end of a sentence that was too long. The last
# one counts: the names after it (regions, hardware) are too short to hold another one.
_MORE: Final = re.compile(
    rf"(?P<lead>, else (?:at least )?|(?P<since>since attempt \d+), )\$-?[\d,.]+ more by {_INSTANT}"
    "|, else [^;\u2026]*\u2026$"
)


def used_up(left_ms: int, at_ms: int) -> str:
    """Return when all is used up at the rate of an instant, to follow that rate."""
    return f", used up at {short_instant(at_ms + left_ms, at_ms)} UTC"


def hour_rates(nano_per_hour: int) -> tuple[str, str]:
    """How the rate of a budget is said: alone, and where a part of it pays more now than all did in the hour."""
    rate = f"{rounded_usd(nano_per_hour)}/h"
    return rate, f"{rate} in the last hour"


class AlertSentence(NamedTuple):
    """The sentence of an alert that fires, with the facts of its instant that it was made of; instants in ms."""

    rule: str
    text: str
    held_ms: int
    nano_per_hour: int = 0
    exhausted_in_ms: int | None = None

    def past(self) -> str:
        """The sentence without what was to come."""
        return _with_more(self._without_end(), "")

    def at(self, now_ms: int, more_nano: int | None = None) -> str:
        """The sentence as of `now_ms`.

        `more_nano`: what it costs per hour from now on if nothing is done, 0 or less: nothing. None: nobody knows, so that
        what is to come is said only while the sentence is current.
        """
        if more_nano is None:
            return self.text if now_ms - self.held_ms <= CURRENT_MS else self.past()
        if more_nano <= 0:
            return _with_more(self._without_end(), "").replace(SCALE_BACK, IS_BACK, 1)
        return _with_more(self._without_end(), unheeded(more_nano, max(now_ms, self.held_ms)))

    def _without_end(self) -> str:
        """The sentence without the instant at which a budget was going to be used up."""
        if self.exhausted_in_ms is None:
            return self.text
        if self.rule == _FORECAST:
            return self.text.replace(WILL, _WAS_TO, 1)
        end = used_up(self.exhausted_in_ms, self.held_ms)
        for rate in hour_rates(self.nano_per_hour):
            if rate + end in self.text:
                return self.text.replace(rate + end, rate, 1)
        return self.text


def sentence_of(alert: Alert) -> AlertSentence:
    """The sentence of an alert's row."""
    return AlertSentence(
        alert.rule, alert.summary, alert.held_ms, alert.usd_nano_per_hour, alert.exhausted_in_ms
    )


def as_of(alert: Alert, now_ms: int) -> Alert:
    """The row to show at `now_ms` where no present figures are at hand."""
    if alert.status != FIRING:
        return alert
    return msgspec.structs.replace(alert, summary=sentence_of(alert).at(now_ms))


def _with_more(text: str, more: str) -> str:
    """A sentence with other words about what it costs if nothing is done; '': without any."""
    found = list(_MORE.finditer(text))
    if not found:
        return text
    last = found[-1]
    before, after = text[: last.start()], text[last.end() :]
    kept = last["since"] or ""
    said = f"{before}{last['lead']}{more}{after}" if more and last["lead"] else ""
    return said if said and len(said) <= SENTENCE_AT_MOST else f"{before}{kept}{after}"
