"""A message that is no alert, on the way of alerts: a receipt of a job that ended.

It must not compute: what is stored is what is sent, so that every attempt of every process has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import msgspec

from schemas.messages.receipt import JobEnded, JobEndedData
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.formatting import instant, span, usd
from streams.engine.alerts.rules import TICKET

#: The status of every notice: it is sent once.
ISSUED: Final = "issued"
JOB_ENDED: Final = "job.ended"


class Notice(Alert, frozen=True, kw_only=True, gc=False):
    """An alert to whoever delivers it; `body` is the JSON that webhooks get, the rest is shown to people."""

    body: bytes
    title: str
    figures: tuple[tuple[str, str], ...]


def notice_of(body: bytes, owner: str) -> Notice:
    """Return the notice of a stored message, for the owner whose addresses get it."""
    data = msgspec.json.decode(body, type=JobEnded).data
    return Notice(
        alert_id=data.receipt_id,
        rule=JOB_ENDED,
        severity=TICKET,
        status=ISSUED,
        subject_kind="job",
        subject_name=data.job_id,
        owner=owner,
        team=data.team,
        project=data.project,
        started_ms=data.ended_ms if data.started_ms is None else data.started_ms,
        resolved_ms=data.ended_ms,
        ratio=0.0,
        usd_nano_per_hour=0,
        expected_nano_per_hour=0,
        cost_nano=_nano(data.cost_usd),
        window_ms=0,
        summary=data.summary,
        evidence_sql="",
        held_ms=data.ended_ms,
        changed_ms=data.ended_ms,
        firings=1,
        silenced=False,
        body=body,
        title=f"{data.job_id} {data.state}: {_usd(data.cost_usd)}",
        figures=tuple(_figures(data)),
    )


def _figures(data: JobEndedData) -> Iterator[tuple[str, str]]:
    """Yield (label, value); what is not known is left out."""
    yield "Cost", _usd(data.cost_usd)
    if data.usd_per_hour is not None:
        yield "Ran", f"{span(data.wall_clock_ms)}, {_usd(data.usd_per_hour)}/h"
    if data.lost_ratio:
        yield "Lost", f"{_usd(data.lost_usd)} ({100 * data.lost_ratio:.0f} %)"
    if data.productive_ratio is not None:
        yield "GPUs productive", f"{100 * data.productive_ratio:.0f} %"
    if data.expected is not None:
        yield "Expected", f"{_usd(data.expected.usd_per_hour)}/h ({data.expected.ratio:.2f}x)"
    if data.kind is not None:
        yield "Median of its kind", f"{_usd(data.kind.median_usd)} ({data.kind.jobs} jobs)"
    if data.cheaper is not None:
        yield f"On {data.cheaper.purchase}", _usd(data.cheaper.cost_usd)
    yield "Ended", instant(data.ended_ms)


def _usd(text: str) -> str:
    return usd(_nano(text))


def _nano(text: str) -> int:
    return int(Decimal(text).scaleb(9))
