"""Builds the alert row of a budget's finding: its sentence and its evidence.

Names come from untrusted events: they are shown on one line and quoted in SQL.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import msgspec

from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.outlook import WILL, hour_rates, sentence_of, used_up
from streams.engine.alerts.resolving import resolved
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.ledger_rules.findings import BudgetFinding
from streams.engine.ledger_rules.periods import named
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import limits_of, used_ratio
from streams.engine.rules import budget_forecast, budget_used
from streams.engine.rules.budget_used import THRESHOLDS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.formatting import (
    NAMES_AT_MOST,
    rounded_usd,
    sentence,
    short,
    short_instant,
    span,
    unheeded,
)
from streams.engine.rules.rule import TICKET, Margin, margins_text

_GPU_HOUR: Final = HOUR_MS * 1_000
#: Jobs of a run whose costs are looked at: the newest ones.
_SHOWN: Final = 50
#: How what to do begins.
_ADVICE: Final = ("stop or shrink ", "raise it")


class TopKind(NamedTuple):
    """The jobs that pay most now: of one experiment, of one name but for a running number, or one job; '': none does."""

    name: str = ""
    nano_per_hour: int = 0
    by: str = "job"  # or `experiment`, `name`
    jobs: int = 1

    def words(self, at_most: int) -> str:
        """What to stop or shrink."""
        name = short(self.name, at_most)
        if self.by == "name":
            return f"{self.jobs} jobs named {name}"
        return f"experiment {name}" if self.by == "experiment" else name


def budget_alert(last: Alert | None, found: BudgetFinding, top: TopKind, *, silenced: bool) -> Alert:
    """The next row of the finding's alert; `last`: the one before, None if there is none."""
    if not found.fires:
        assert last is not None  # only what fires is over
        return msgspec.structs.replace(budget_over(last, found.at_ms), silenced=silenced)
    subject, dimensions = found.subject, found.subject.dimensions
    return Alert(
        alert_id=found.id,
        rule=found.rule,
        severity=THRESHOLDS.get(found.percent, TICKET),
        status=FIRING,
        subject_kind=subject.kind,
        subject_name=subject.name,
        owner=dimensions.owner,
        team=dimensions.team,
        project=dimensions.project,
        started_ms=found.at_ms if last is None else last.started_ms,
        resolved_ms=None,
        ratio=round(used_ratio(found.used, subject.budget.limits), 9),
        usd_nano_per_hour=_stored(found.per_hour.usd_nano),
        expected_nano_per_hour=0,
        cost_nano=_stored(found.used.usd_nano),
        window_ms=HOUR_MS,
        summary=_summary(found, top),
        evidence_sql=_evidence(found),
        held_ms=found.at_ms,
        changed_ms=found.at_ms,
        firings=1 if last is None else last.firings + 1,
        silenced=silenced,
        budget_nano=subject.budget.limits.usd_nano,
        exhausted_in_ms=found.exhausted_in_ms,
        margins=margins_text(_margins(found)),
    )


def _margins(found: BudgetFinding) -> list[Margin]:
    if found.percent:
        return budget_used.margins(used_ratio(found.used, found.subject.budget.limits), found.percent)
    assert found.ends_ms is not None  # nothing else is forecast
    return budget_forecast.margins(found.exhausted_in_ms, found.ends_ms - found.at_ms)


def budget_over(last: Alert, at_ms: int) -> Alert:
    """The row that ends a budget's alert: what was forecast then does not come, and nothing is left to do."""
    said = sentence_of(last).past()
    for advice in _ADVICE:
        said = said.partition(f"; {advice}")[0]
    return resolved(msgspec.structs.replace(last, summary=f"{said}; "), at_ms)


def _stored(nano: int) -> int:
    return min(max(nano, 0), MAX_COST_NANO)


def whose(subject: BudgetSubject, at_most: int = NAMES_AT_MOST) -> str:
    """The subject, to begin a sentence with."""
    name = short(subject.name, at_most)
    if len(subject.jobs) > 1:
        return f"the run of {len(subject.jobs)} jobs from {name} on"
    return f"{subject.kind} {name}" if name else "the fleet"


def _within(subject: BudgetSubject) -> str:
    """What else its jobs match; '' if nothing."""
    others = [
        f"{name} {short(value)}"
        for name, value in subject.budget.match.items()
        if subject.run is None and value != subject.name
    ]
    return f"of {', '.join(others)}" if others else ""


def _summary(found: BudgetFinding, top: TopKind) -> str:
    subject, budget = found.subject, found.subject.budget
    at, used, limit = _binding(found)
    spent = f"{rounded_usd(found.used.usd_nano)} spent" if at and found.used.usd_nano else ""
    # A job that began within the hour may pay more now than all together did in it.
    is_more_now = top.nano_per_hour > found.per_hour.usd_nano and subject.kind != "job"
    rate = hour_rates(found.per_hour.usd_nano)[is_more_now]
    left_ms = found.exhausted_in_ms
    when = "" if left_ms is None else f"{short_instant(found.at_ms + left_ms, found.at_ms)} UTC"

    def build(parts: int, at_most: int) -> str:
        which = f"budget {short(budget.name, at_most)}" if budget.name else "its own budget"
        which += f" for {named(budget.per, found.period, budget.calendar)}"
        if found.percent == 0:
            early = span((found.ends_ms or 0) - found.at_ms - (left_ms or 0))
            is_so = f"{WILL}{which} at {when}, {early} early: {used} of {limit}, {rate}"
        elif found.percent >= 100:
            is_so = f"has used up {which}: {used} of {limit}"
        else:
            soon = "" if left_ms is None else used_up(left_ms, found.at_ms)
            share = 100 * used_ratio(found.used, budget.limits)
            is_so = f"has used {share:.1f} % of {which}: {used} of {limit}, {rate}{soon}"
        goes_on = found.percent >= 100 and found.per_hour.usd_nano > 0
        cost = f", else {unheeded(found.per_hour.usd_nano, found.at_ms)}" if goes_on else ""
        advice = _advices(found, top, at_most)[-parts:]
        return f"{whose(subject, at_most)} {is_so}; {advice[0]}{cost}"

    # What to do is said in fewer words where names cannot be shorter.
    said = (sentence(partial(build, parts), spent, _within(subject)) for parts in (3, 2, 1))
    return next((each for each in said if not each.endswith("\u2026")), sentence(partial(build, 1)))


def _advices(found: BudgetFinding, top: TopKind, at_most: int) -> list[str]:
    """What to do, the longest first."""
    is_job = found.subject.kind == "job" and len(found.subject.jobs) == 1
    what = short(found.subject.name, at_most) if is_job else top.words(at_most)
    if not what:
        return [_ADVICE[1]]
    least = f"{_ADVICE[0]}{what}"
    now = " now" if top.nano_per_hour > found.per_hour.usd_nano else ""
    most = least if is_job else f"{least} ({rounded_usd(top.nano_per_hour)}/h{now})"
    return [f"{most}, or raise it", most, least]


def _binding(found: BudgetFinding) -> tuple[int, str, str]:
    """The place of the limit that is used most, what is used of it, and the limit."""
    pairs = zip(found.used, limits_of(found.subject.budget.limits), strict=True)
    shares = [(amount / limit, at) for at, (amount, limit) in enumerate(pairs) if limit]
    at = max(shares)[1]
    used, limit = found.used[at], limits_of(found.subject.budget.limits)[at] or 0
    if at == 0:
        return at, rounded_usd(used), rounded_usd(limit)
    if at == 1:
        return at, f"{used / _GPU_HOUR:,.2f}", f"{limit / _GPU_HOUR:,.2f} GPU-hours"
    return at, span(used), f"{span(limit)} of run time"


def _evidence(found: BudgetFinding) -> str:
    """SQL for the dearest jobs of the period."""
    where = [
        f"h.{name} IN ({', '.join(map(quoted, values[-_SHOWN:]))})"
        if len(values) > 1
        else f"h.{name} = {quoted(values[0])}"
        for name, values in found.subject.wanted.items()
    ]
    if found.period.start_ms:
        where.append(f"h.hour >= toDateTime({found.period.start_ms // 1000:d}, 'UTC')")
    if found.period.end_ms is not None:
        where.append(f"h.hour < toDateTime({found.period.end_ms // 1000:d}, 'UTC')")
    where.append(f"h.hour <= toDateTime({found.at_ms // 1000:d}, 'UTC')")
    return (
        "SELECT h.job_id AS job_id, any(h.owner) AS owner, any(h.team) AS team, sum(h.cost_usd) AS cost_usd,"  # noqa: S608 - quoted() escapes the names
        " sum(h.lost_cost_usd) AS lost_cost_usd,"
        " round(sum(h.gpu_milli_ms) / 3600000000, 3) AS gpu_h, max(h.hour) AS last_hour"
        f" FROM cost_hours AS h WHERE {' AND '.join(where)}"
        " GROUP BY job_id ORDER BY cost_usd DESC, job_id LIMIT 20"
    )
