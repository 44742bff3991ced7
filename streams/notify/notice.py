"""A message that is no alert but is delivered like one: a receipt of a job that ended, or a weekly digest.

What is stored is what is sent, so that every attempt of every process has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from schemas.counting import how_many
from schemas.escaping import visible
from schemas.lengths import duration
from schemas.messages.digest import DigestWeekly, DigestWeeklyData
from schemas.messages.receipt import JobEnded, JobEndedData
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.titles import title_of
from streams.engine.rules.formatting import instant, usd
from streams.engine.rules.rule import TICKET

#: The status of every notice: it is sent once.
ISSUED: Final = "issued"
JOB_ENDED: Final = "job.ended"
DIGEST_WEEKLY: Final = "digest.weekly"


class Figure(NamedTuple):
    """A labelled value for people; `at_ms`: the instant that it says, if it says one."""

    label: str
    value: str
    at_ms: int | None = None


def instant_figure(label: str, at_ms: int) -> Figure:
    """The figure of an instant."""
    return Figure(label, instant(at_ms), at_ms)


class Notice(Alert, frozen=True, kw_only=True, gc=False):
    """An alert to whoever delivers it; `body` is the JSON that webhooks get, the rest is shown to people."""

    body: bytes
    title: str
    figures: tuple[Figure, ...]
    #: Labels and addresses of its own; without any it has those of an alert that is over.
    links: tuple[tuple[str, str], ...] = ()


class _Typed(msgspec.Struct):
    type: str


def notice_of(body: bytes, owner: str) -> Notice:
    """The notice of a stored message, for the owner whose addresses get it."""
    if msgspec.json.decode(body, type=_Typed).type == DIGEST_WEEKLY:
        return _digest_notice(body, owner)
    data = msgspec.json.decode(body, type=JobEnded).data
    return Notice(
        **notice_fields(data.receipt_id, JOB_ENDED, owner, data.cost_usd, data.summary, data.ended_ms, body),
        subject_kind="job",
        subject_name=data.job_id,
        team=data.team,
        project=data.project,
        started_ms=data.ended_ms if data.started_ms is None else data.started_ms,
        title=f"{data.job_id} {data.state}: {_usd(data.cost_usd)}",
        figures=tuple(_figures(data)),
    )


def text_figures(notice: Notice, outcomes: str) -> list[tuple[str, str]]:
    """The figures of a notice for people, with who gets it and what became of its messages ('': there were none)."""
    known = [figure[:2] for figure in notice.figures]
    return [*known, ("To", notice.owner), ("Messages", outcomes or "none")]


def notice_text(notice: Notice, outcomes: str) -> str:
    """A notice as plain text: its sentence and its figures in two columns."""
    lines = [("figure", "value"), *text_figures(notice, outcomes)]
    shown = [(visible(label), visible(value)) for label, value in lines]
    width = max(len(label) for label, _ in shown)
    return f"{visible(notice.summary)}\n\n" + "".join(
        f"{label.ljust(width)}  {value}".rstrip() + "\n" for label, value in shown
    )


def _digest_notice(body: bytes, owner: str) -> Notice:
    data = msgspec.json.decode(body, type=DigestWeekly).data
    kind, name = data.subject.kind, data.subject.name
    return Notice(
        **notice_fields(
            data.receipt_id, DIGEST_WEEKLY, owner, data.cost_usd, data.summary, data.until_ms, body
        ),
        subject_kind=kind,
        subject_name=name,
        team=name if kind == "team" else "",
        project="",
        started_ms=data.from_ms,
        title=f"{kind} {name}, {data.week}: {_usd(data.cost_usd)}",
        figures=tuple(_digest_figures(data)),
    )


def notice_fields(
    receipt_id: str, rule: str, owner: str, cost_usd: str, summary: str, at_ms: int, body: bytes
) -> dict[str, Any]:
    """The fields that every notice has; those of alerts alone are empty."""
    return {
        "alert_id": receipt_id,
        "rule": rule,
        "severity": TICKET,
        "status": ISSUED,
        "owner": owner,
        "resolved_ms": at_ms,
        "ratio": 0.0,
        "usd_nano_per_hour": 0,
        "expected_nano_per_hour": 0,
        "cost_nano": _nano(cost_usd),
        "window_ms": 0,
        "summary": summary,
        "evidence_sql": "",
        "held_ms": at_ms,
        "changed_ms": at_ms,
        "firings": 1,
        "silenced": False,
        "body": body,
    }


def _figures(data: JobEndedData) -> Iterator[Figure]:
    """Yield the figures; what is not known is left out."""
    yield Figure("Cost", _usd(data.cost_usd))
    if data.usd_per_hour is not None:
        yield Figure("Ran", f"{duration(data.wall_clock_ms)}, {_usd(data.usd_per_hour)}/h")
    if data.lost_ratio:
        yield Figure("Lost", f"{_usd(data.lost_usd)} ({100 * data.lost_ratio:.0f} %)")
    if data.productive_ratio is not None:
        yield Figure("GPUs productive", f"{100 * data.productive_ratio:.0f} %")
    if data.expected is not None:
        yield Figure("Expected", f"{_usd(data.expected.usd_per_hour)}/h ({data.expected.ratio:.2f}x)")
    if data.kind is not None:
        yield Figure(
            "Median of similar jobs", f"{_usd(data.kind.median_usd)} ({how_many(data.kind.jobs, 'job')})"
        )
    if data.cheaper is not None:
        yield Figure(f"On {data.cheaper.purchase}", _usd(data.cheaper.cost_usd))
    yield instant_figure("Ended", data.ended_ms)


def _digest_figures(data: DigestWeeklyData) -> Iterator[Figure]:
    """Yield the figures; names are in values only, which are escaped wherever they are shown."""
    yield Figure("Cost", f"{_usd(data.cost_usd)} of {how_many(data.jobs, 'job')}")
    yield Figure("Week before", f"{_usd(data.previous_usd)} ({more_or_less(_nano(data.change_usd))})")
    yield Figure("Lost", _usd(data.lost_usd))
    if data.unproductive_usd is not None:
        yield Figure("GPUs that did not work", _usd(data.unproductive_usd))
    if data.drivers:
        changes = (
            f"{each.job_id} ({each.component}) {more_or_less(_nano(each.change_usd))}"
            for each in data.drivers
        )
        yield Figure("Changed most", ", ".join(changes))
    if data.largest:
        yield Figure(
            "Largest jobs", ", ".join(f"{each.job_id} {_usd(each.cost_usd)}" for each in data.largest)
        )
    if data.small_alerts:
        small = (
            f"{each.alerts} {title_of(each.rule)} ({', '.join(each.subjects)})" for each in data.small_alerts
        )
        yield Figure("Too small to be sent", "; ".join(small))


def more_or_less(nano: int) -> str:
    """An amount with its sign."""
    return f"{'-' if nano < 0 else '+'}{usd(abs(nano))}"


def _usd(text: str) -> str:
    return usd(_nano(text))


def _nano(text: str) -> int:
    return int(Decimal(text).scaleb(9))
