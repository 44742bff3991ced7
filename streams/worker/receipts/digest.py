"""A weekly digest: its figures, the message that is made of them, and its sentence.

Money is integer nano-dollars.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from schemas.escaping import utf8_text, visible
from schemas.messages.alert import AlertSubject
from schemas.messages.digest import DigestAlerts, DigestDriver, DigestJob, DigestWeekly, DigestWeeklyData
from streams.costs.drivers import CostCell, effects_of
from streams.costs.unproductive import unproductive_nano
from streams.engine.alerts.alert import receipt_id
from streams.engine.alerts.titles import title_of
from streams.engine.rules.formatting import one_line
from streams.engine.rules.formatting import usd as shown_usd
from streams.notify.json_forms import rfc3339, usd
from streams.notify.links import NO_LINKS, Links
from streams.notify.notice import DIGEST_WEEKLY, more_or_less
from streams.worker.receipts.digest_sql import SubjectKind
from streams.worker.receipts.receipt import Receipt, show_command

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DigestSubject(NamedTuple):
    """Whose jobs, in which week, and whose addresses get it."""

    kind: SubjectKind
    name: str
    owner: str
    from_ms: int
    until_ms: int

    @property
    def id(self) -> str:
        """The id of its message."""
        return receipt_id(DIGEST_WEEKLY, self.kind, self.name, self.owner, self.until_ms)


class ChangedCell(NamedTuple):
    """A job's component in both weeks."""

    job_id: str
    component: str
    before: CostCell
    after: CostCell


class SmallAlerts(NamedTuple):
    """Alerts of one rule that were about too few dollars to be sent, and the first of what they are about."""

    rule: str
    alerts: int
    subjects: tuple[str, ...]


class WeekFigures(NamedTuple):
    """What the jobs cost; drivers and jobs come the largest first."""

    cost_nano: int
    previous_nano: int
    lost_nano: int
    gpu_nano: int
    sampled_gpu_ms: int
    productive_gpu_ms: int
    jobs: int
    changed: tuple[ChangedCell, ...] = ()
    largest: tuple[tuple[str, int], ...] = ()
    small_alerts: tuple[SmallAlerts, ...] = ()

    @property
    def unproductive_nano(self) -> int | None:
        """What the GPUs cost while they did not work; None: nothing was sampled."""
        return unproductive_nano(self.gpu_nano, self.sampled_gpu_ms, self.productive_gpu_ms)


def digest_of(subject: DigestSubject, of: WeekFigures, links: Links = NO_LINKS) -> Receipt:
    """Build the digest; the same figures and links always give the same bytes."""
    unproductive, previous = of.unproductive_nano, of.previous_nano
    data = DigestWeeklyData(
        receipt_id=subject.id,
        subject=AlertSubject(kind=subject.kind, name=utf8_text(subject.name)),
        owner=utf8_text(subject.owner),
        week=week_of(subject.from_ms),
        from_ms=subject.from_ms,
        until_ms=subject.until_ms,
        jobs=of.jobs,
        cost_usd=usd(of.cost_nano),
        previous_usd=usd(previous),
        change_usd=usd(of.cost_nano - previous),
        change_ratio=(of.cost_nano - previous) / previous if previous else None,
        lost_usd=usd(of.lost_nano),
        unproductive_usd=None if unproductive is None else usd(unproductive),
        drivers=[_driver(cell) for cell in of.changed],
        largest=[DigestJob(job_id=utf8_text(job_id), cost_usd=usd(nano)) for job_id, nano in of.largest],
        small_alerts=[
            DigestAlerts(
                rule=each.rule, alerts=each.alerts, subjects=[utf8_text(name) for name in each.subjects]
            )
            for each in of.small_alerts
        ],
        summary=visible(sentence(subject, of)),
        command=show_command(subject.id),
        links=links.of_receipt(DIGEST_WEEKLY, subject.kind, subject.name, subject.until_ms) or UNSET,
    )
    message = DigestWeekly(type="digest.weekly", timestamp=rfc3339(subject.until_ms), data=data)
    return Receipt(
        subject.id,
        DIGEST_WEEKLY,
        subject.kind,
        subject.name,
        subject.owner,
        subject.from_ms,
        subject.until_ms,
        of.cost_nano,
        of.lost_nano,
        data.summary,
        msgspec.json.encode(message),
        subject.until_ms,
    )


def week_of(from_ms: int) -> str:
    """The ISO week that begins then."""
    return (_EPOCH + timedelta(milliseconds=from_ms)).strftime("%G-W%V")


def sentence(subject: DigestSubject, of: WeekFigures) -> str:
    """The digest in one line, for a phone."""
    who = f"{subject.kind} {one_line(subject.name)}"
    said = f"{who} spent {shown_usd(of.cost_nano)} in {week_of(subject.from_ms)}"
    return f"{said}, {_change(of)}. {'; '.join(_more(of))}".rstrip(". ") + "."


def _change(of: WeekFigures) -> str:
    change = of.cost_nano - of.previous_nano
    if not of.previous_nano:
        return "nothing the week before"
    if not change:
        return "as the week before"
    percent = f"{100 * abs(change) / of.previous_nano:.0f} %"
    return f"{shown_usd(abs(change))} ({percent}) {'more' if change > 0 else 'less'} than the week before"


def _more(of: WeekFigures) -> Iterator[str]:
    if of.changed:
        cell = of.changed[0]
        change = more_or_less(cell.after.cost_nano - cell.before.cost_nano)
        yield f"{one_line(cell.job_id)} ({cell.component}) changed most: {change}"
    if of.lost_nano:
        yield f"{shown_usd(of.lost_nano)} lost"
    if of.unproductive_nano:
        yield f"{shown_usd(of.unproductive_nano)} of GPUs that did not work"
    if of.small_alerts:
        count = sum(each.alerts for each in of.small_alerts)
        yield f"{count} alert{'s' * (count > 1)} too small to be sent, most of them: {title_of(of.small_alerts[0].rule)}"


def _driver(cell: ChangedCell) -> DigestDriver:
    effects = effects_of(cell.before, cell.after)
    return DigestDriver(
        job_id=utf8_text(cell.job_id),
        component=cell.component,
        cost_usd=usd(cell.after.cost_nano),
        previous_usd=usd(cell.before.cost_nano),
        change_usd=usd(cell.after.cost_nano - cell.before.cost_nano),
        price_effect_usd=usd(effects.price_nano),
        quantity_effect_usd=usd(effects.quantity_nano),
    )
