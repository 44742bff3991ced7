"""The demo's output as lines: its start, burn rates, deliveries, summary."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.output import usd
from streams.cli.rule_titles import title_column
from streams.cli.top.figures import MeterView
from streams.cli.top.lines import ago, percent
from streams.cli.top.rows import count
from streams.demo.summary import Summary
from streams.notify.webhooks.receiver import Received

_TOP = 3


def clock(at_ms: int) -> str:
    """The fleet's time of day."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"


def pace(speed: float, start_ms: int) -> str:
    """Describe how fast the fleet's time passes, so that nobody mistakes it for the present."""
    day = f"{datetime.fromtimestamp(start_ms / 1000, UTC):%Y-%m-%d}"
    return f"simulated fleet, {speed:g}x time ({ago(int(speed * 1000))} a second) from {day} {clock(start_ms)} UTC on"


def burning(snapshot: MeterView) -> str:
    """Describe the fleet's burn rate, and the jobs with the highest."""
    burn = snapshot.burn
    dearest = sorted(snapshot.jobs, key=lambda job: -job.usd_per_hour_now)[:_TOP]
    top = ", ".join(f"{visible(job.job_id)} {dollars(job.usd_per_hour_now)}/h" for job in dearest)
    firing = f"{how_many(burn.alerts_firing, 'alert')} firing"
    return (
        f"{clock(snapshot.as_of_ms)}  {dollars(burn.usd_per_hour_now)}/h  {burn.jobs_live} jobs on "
        f"{count(burn.gpus_held)} GPUs  unproductive {percent(burn.idle_gpu_ratio)}  "
        f"today {dollars(burn.spend_today_usd)}  {firing}  top: {top or '-'}"
    )


def delivered(message: Received) -> str:
    """Describe an alert as its receiver got it."""
    data = message.data
    firing = data.get("status") == "firing"
    what = visible(str(data.get("severity") if firing else data.get("status")))
    rule, owner = title_column(data.get("rule")), visible(str(data.get("owner") or "-"))
    said = visible(str(data.get("summary", ""))) if firing else _over(message)
    return f"{clock(at_ms(message))}  {what:<8}  {rule}  to {owner:<9}  {said}"


def _over(message: Received) -> str:
    """Describe what is over, and how long it lasted."""
    subject = message.data.get("subject") or {}
    about = f"{visible(str(subject.get('kind', '')))} {visible(str(subject.get('name', '')))}"
    ended_ms = at_ms(message)
    return f"{about}, after {ago(ended_ms - int(message.data.get('started_ms', ended_ms)))}"


def at_ms(message: Received) -> int:
    """Return when an alert changed, by the fleet's clock."""
    return round(datetime.fromisoformat(message.timestamp).timestamp() * 1_000)


def summary(found: Summary) -> Iterator[tuple[str, str]]:
    """Yield the summary line by line."""
    books = found.books
    yield "ran for", f"{found.seconds:.0f} s, {found.event_hours:.1f} h of the fleet's time"
    yield "jobs metered", str(found.jobs)
    yield "GPU hours", f"{found.gpu_hours:,.1f}"
    yield "dollars", f"{dollars(found.usd)}, of it {dollars(found.lost_usd)} lost work"
    yield "burn rate", f"{dollars(found.usd_per_hour)}/h at the end"
    yield (
        "alerts",
        f"{found.alerts}; {how_many(found.delivered, 'message')} delivered",
    )
    sign = "yes" if books.balanced else "NO"
    parts = (
        f"{books.applied:,} applied + {books.unattributed:,} unattributed + {books.duplicate:,} duplicate"
        f" + {books.refused:,} refused"
    )
    yield "books balance", f"{sign}: {books.records_in:,} records in = {parts}"


def dollars(amount: object) -> str:
    """Format money for people."""
    return f"${usd(Decimal(str(amount)).quantize(Decimal('0.01')))}"
