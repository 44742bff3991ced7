"""What a rule is: everything that is derived from it elsewhere stands in its module, and nowhere else.

No rule is defined here; `registry` has them all, in the order of evaluation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from schemas.durations import HOUR_MS
from schemas.units import NANO_PER_USD

PAGE: Final = "page"
TICKET: Final = "ticket"
#: What may be set; an alert may also be one of DIGEST: stored and shown, and nobody is notified of it.
SEVERITIES: Final = (TICKET, PAGE)
DIGEST: Final = "digest"
#: From the least urgent one on.
URGENCY: Final = (DIGEST, TICKET, PAGE)


def is_above(severity: str, other: str) -> bool:
    """Whether one severity is more urgent than another."""
    return URGENCY.index(severity) > URGENCY.index(other)


#: The kind of the subject of rules about one job.
JOB: Final = "job"


#: What may be usual for a kind of jobs: what accrues per hour, what traffic costs per hour, or the length of an alert.
FigureKind = Literal["rate", "traffic", "length"]


class Threshold(NamedTuple):
    """A threshold of a rule: its default, and the least and greatest that a record may set."""

    default: float
    least: float
    most: float
    what: str
    is_count: bool = False


#: The thresholds of a rule that knows what is wasted: from where on it is sent at all, and from where on it is a page.
LEAST_WASTE: Final = "least_usd_per_hour"
PAGE_FROM: Final = "page_usd_per_hour"
#: Of a rule that holds whatever is wasted: from where on somebody is notified; with PAGE_FROM, as `notified_from` has both.
TICKET_FROM: Final = "ticket_usd_per_hour"
#: Of a rule about loops: from where on one that saves most of its work is a page.
SAVING_PAGE_FROM: Final = "saving_page_usd_per_hour"


def page_from(what: str, default: float = 100) -> dict[str, Threshold]:
    """The threshold that makes a page of a ticket; `what`: of which dollars per hour."""
    said = f"{what}, from which on it is a page; of the instant at which it opens"
    return {PAGE_FROM: Threshold(default, 0, 1e9, said)}


def notified_from(what: str) -> dict[str, Threshold]:
    """The thresholds from which on somebody is notified, and from which on that is a page; `what`: of which dollars per hour."""
    least = Threshold(1, 0, 1e9, f"{what}, below which nobody is notified of it")
    return {TICKET_FROM: least, **page_from(what)}


def loops_notified_from() -> dict[str, Threshold]:
    """The thresholds of loops: one that loses most of its work gets nowhere, and is a page whatever that costs."""
    what = "dollars of lost work per hour, of a loop that loses less than half of what is paid meanwhile"
    least = Threshold(1, 0, 1e9, f"{what}, below which nobody is notified of it")
    return {
        TICKET_FROM: least,
        SAVING_PAGE_FROM: Threshold(100, 0, 1e9, f"{what}, from which on it is a page"),
    }


def loop_page_usd(thresholds: Mapping[str, float]) -> float:
    """From how many dollars of lost work per hour on a loop that saves most of its work is a page."""
    return max(thresholds[SAVING_PAGE_FROM], thresholds.get(PAGE_FROM, 0))


#: The threshold of a rule of which a figure may be usual (`usual_by`), and its default.
USUAL_RATIO: Final = "usual_ratio"
USUAL_FACTOR: Final = 1.2


def usual_up_to() -> dict[str, Threshold]:
    """The threshold of a rule of which nobody is notified while its figure is usual for the kind of the job."""
    what = (
        "times what is usual for jobs of its kind, up to which nobody is notified; 0: nothing counts as usual"
    )
    return {USUAL_RATIO: Threshold(USUAL_FACTOR, 0, 100, what)}


def severity_of(
    severity: str,
    waste_nano_per_hour: int | None,
    thresholds: Mapping[str, float],
    page_usd_per_hour: float | None = None,
) -> str:
    """The severity of an alert that opens while so much is wasted; `severity` is that of the settings.

    Where what is wasted is not known (None, or nothing, as without a price) the settings say it. `page_usd_per_hour`: from which
    waste on it is a page; None: the threshold PAGE_FROM.
    """
    if severity == PAGE or waste_nano_per_hour is None:
        return severity
    page_usd = thresholds[PAGE_FROM] if page_usd_per_hour is None else page_usd_per_hour
    if waste_nano_per_hour >= page_usd * NANO_PER_USD:
        return PAGE
    is_little = 0 < waste_nano_per_hour < thresholds.get(TICKET_FROM, 0) * NANO_PER_USD
    return DIGEST if is_little else severity


def wastes_enough(waste_nano_per_hour: int, thresholds: Mapping[str, float]) -> bool:
    """Whether something is wasted, and so much that an alert opens."""
    return waste_nano_per_hour > 0 and waste_nano_per_hour >= thresholds[LEAST_WASTE] * NANO_PER_USD


class Margin(NamedTuple):
    """How far one condition of a rule is from holding; all conditions with the same `way` must hold, one way is enough."""

    what: str
    value: float | None  # None: not known, or the condition does not apply
    threshold: float
    share: float | None  # 1 and more: the condition holds
    way: int = 0


#: A share of nothing in something is infinite, which JSON does not have.
SHARE_MAX: Final = 1e6


def margins_text(margins: Iterable[Margin]) -> str:
    """Margins as a JSON array of [what, value, threshold, share, way]; '' of none."""
    found = [
        [
            each.what,
            each.value,
            each.threshold,
            None if each.share is None else min(each.share, SHARE_MAX),
            each.way,
        ]
        for each in margins
    ]
    return json.dumps(found, separators=(",", ":")) if found else ""


def margins_of(text: str) -> list[Margin]:
    """The reverse of `margins_text`."""
    return [Margin(*each) for each in json.loads(text)] if text else []


def from_threshold_on(what: str, value: float | None, threshold: float, way: int = 0) -> Margin:
    """Return the margin of a condition that holds from its threshold on; a threshold of 0: above it."""
    if value is None:
        return Margin(what, None, threshold, None, way)
    share = value / threshold if threshold else float(value > 0)
    return Margin(what, value, threshold, share, way)


def unless_zero(what: str, value: float | None, threshold: float, way: int = 0) -> list[Margin]:
    """The margin of a condition that holds from its threshold on; none where a threshold of 0 switches it off."""
    return [from_threshold_on(what, value, threshold, way)] if threshold > 0 else []


def below_threshold(what: str, value: float | None, threshold: float, way: int = 0) -> Margin:
    """Return the margin of a condition that holds below its threshold."""
    if value is None:
        return Margin(what, None, threshold, None, way)
    if value < threshold:
        share = max(threshold / value, 1.0) if value > 0 else float("inf")
    else:
        share = min(threshold / value, 1 - 1e-12) if value > 0 else 0.0
    return Margin(what, value, threshold, share, way)


def above_threshold(what: str, value: float, threshold: float, *, is_above: bool, way: int = 0) -> Margin:
    """Return the margin of a condition that holds above its threshold; `is_above`: by the exact value."""
    share = value / threshold
    return Margin(what, value, threshold, max(share, 1.0) if is_above else min(share, 1 - 1e-12), way)


#: Ends the text of a condition without a measure: its value is 1 or 0.
IS_FLAG: Final = " (1: yes)"


def flag(what: str, holds: bool, way: int = 0) -> Margin:
    """The margin of a condition without a measure: 1 if it holds, else 0."""
    return Margin(f"{what}{IS_FLAG}", float(holds), 1, float(holds), way)


@dataclass(frozen=True, kw_only=True)
class AlertRule:
    """What every rule has. `about`: what it judges; `holds`: when, for the tables in docs/; `runbook`: below docs/."""

    name: str
    title: str
    severity: str
    about: str
    holds: str
    runbook: str
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    window_ms: int = 0  # of the figures; 0: it has none
    enabled: bool = True
    #: Whether a planned rate can quiet it: it compares a cost with what was expected.
    planned_quiets: bool = False
    #: Which part of the job's present rate goes on if nothing is done: "all", "extra" above the expected rate, "above usual", or
    #: '' where that is not known.
    goes_on: str = ""
    #: Rules that tell of the same: it opens nothing while an alert of one of them stands, or stood so shortly before that it may
    #: see the same. Two rules that name each other: the one that comes first tells. This only says it: a kernel does it for rules
    #: about a job (`yields` of streams/engine/kernels/precedence.py), and its judge for one on the ledger.
    yields_to: tuple[str, ...] = ()
    #: Rules of the same cause: nobody is notified of an alert about a job while one of theirs about it, as severe, fires already.
    inhibited_by: tuple[str, ...] = ()
    #: The figure of a job up to which nobody is notified of an alert, if jobs of its kind reached it (`usual_figures`).
    #: None: no figure is usual.
    usual_by: FigureKind | None = None
    #: Whether an alert about a job is about all jobs of its run.
    is_about_run: bool = False


@dataclass(frozen=True, kw_only=True)
class LedgerRule(AlertRule):
    """A rule that is judged on the stored ledger: across jobs, about nodes, prices, sources.

    `finding` makes of the figures of an opening its sentence and evidence; its signature is the rule's own, as is `margins`,
    which says of the same figures how far they are beyond the thresholds.
    """

    finding: Callable[..., Any]
    margins: Callable[..., list[Margin]]
    window_ms: int = HOUR_MS
    #: What it judges by itself, in words; '': the fleet as a whole.
    each: str = ""
    #: The record `operator` that names who gets an alert without an owner.
    operator: str = ""
    #: Fields of jobs that a record of it may match.
    match_fields: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HourlyRule(LedgerRule):
    """A rule of which each row of a query is an hour in which it holds for a subject.

    `sql` gets `from_ms`, `to_ms` and what `bound` makes of the thresholds and of the first hour; `key` is its column with the
    subject's name, '' where a subject is judged anew each hour. `needs`: it is not asked where the span has none of these.
    """

    sql: str
    needs: str
    kind: str
    key: str = ""
    bound: Callable[[Mapping[str, float], int], Mapping[str, float]] = lambda thresholds, _from_ms: thresholds
