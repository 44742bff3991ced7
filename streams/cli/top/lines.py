"""The lines of `trainfare top` around its table: fleet, source of the figures, alerts, one job, keys."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.output import usd
from streams.cli.rule_titles import title_of
from streams.cli.top.figures import AlertView, Job, MeterView, is_unpriced
from streams.cli.top.rows import HIGH, LOW, VERY_HIGH, burning, count, money, ratio_sign, sparkline

BEHIND_MS = 11 * 60_000
"""While any job has a rate, rows are written more often than this: older figures are marked as old."""
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_KEYS = (
    ("q", "quit"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "show only jobs with these words in their names, state or alerts; Esc shows all again"),
    ("a", "show or hide the alerts"),
    ("Enter", "everything about the job under the bar"),
    ("↑ ↓ PgUp PgDn", "move the bar, or scroll a sheet"),
    ("?", "this help"),
)


def fleet(snapshot: MeterView | None) -> Text:
    """The cost of the whole fleet in one line."""
    if snapshot is None:
        return Text("waiting for the first figures")
    burn = snapshot.burn
    line = Text(f"${money(burn.usd_per_hour_now)}/h now", "bold")
    line.append(f" · 1h {money(burn.usd_per_hour_1h)} · today ${money(burn.spend_today_usd)}", "not bold")
    line.append(f" · unproductive {percent(burn.idle_gpu_ratio)} · ", "not bold")
    firing = burn.alerts_firing
    pages = any(alert.severity == "page" for alert in snapshot.alerts if alert.status == "firing")
    sign = ("● " if pages else "○ ") if firing else ""
    said = f"{sign}{how_many(firing, 'alert')} firing" if firing else "no alerts"
    line.append(said, "bold red" if pages and firing else "yellow" if firing else "green")
    return line


def status(
    snapshot: MeterView | None,
    fault: str | None,
    silent_ms: int,
    now_ms: int | None,
    shown: str,
    *,
    moving: bool = False,
) -> Text:
    """The source and age of the figures; stale figures are marked first.

    `now_ms`: None if event time is not this machine's time, as in a demo; `moving`: the figures' time was seen to
    advance.
    """
    line = Text()
    if fault is not None:
        age = f"STALE for {ago(silent_ms)}" if snapshot is not None else "NO FIGURES"
        line.append(f" {age} ", "bold white on red").append(f" {visible(fault)}", "red")
        return line
    if snapshot is None:
        return line
    behind_ms = 0 if now_ms is None or not snapshot.as_of_ms else now_ms - snapshot.as_of_ms
    if behind_ms > BEHIND_MS:
        # Figures that advance are of a meter that is catching up, or whose events are of another day.
        age = f"{ago(behind_ms)} BEHIND" if moving else f"NO NEWS FOR {ago(behind_ms)}"
        line.append(f" {age} ", "bold black on yellow").append(" ")
    line.append(f"{shown} · {snapshot.burn.jobs_live} jobs, {count(snapshot.burn.gpus_held)} GPUs · ")
    line.append(f"{instant(snapshot.as_of_ms)} · ")
    line.append(visible(snapshot.origin), "dim")
    return line


def alert_lines(alerts: Sequence[AlertView], as_of_ms: int) -> Text:
    """One line per alert, firing ones first, the newest on top."""
    if not alerts:
        return Text("no alerts", "dim")
    lines = Text()
    wide = max(len(title_of(alert.rule)) for alert in alerts)
    for alert in sorted(alerts, key=lambda each: (each.status != "firing", -each.started_ms, each.alert_id)):
        firing = alert.status == "firing"
        sign, style = ("✓", "dim")
        if firing:
            sign, style = ("●", "bold red") if alert.severity == "page" else ("○", "yellow")
        about = f"{visible(alert.subject.kind)} {visible(alert.subject.name)}"
        if lines:
            lines.append("\n")
        lines.append(f"{sign} {alert.status:<8} {title_of(alert.rule):<{wide}} ", style)
        lines.append(
            f"{ago((alert.resolved_ms or as_of_ms) - alert.started_ms):>11}  ", style if not firing else ""
        )
        lines.append(visible(alert.summary) or about, "dim" if not firing else "")
        lines.append(" (silenced)" if alert.silenced else "", "dim")
    return lines


def _cost(job: Job) -> str:
    known = f"${usd(job.cost_usd)} so far, of it ${usd(job.lost_cost_usd)} lost work"
    if not is_unpriced(job):
        return known
    hours = f"{job.unpriced_gpu_h:,.1f} GPU-hours have"
    missing = f"{hours if job.unpriced_gpu_h else 'time without GPUs or energy has'} no price"
    return f"at least {known}; {missing}" if job.cost_usd else f"unpriced: {missing}"


def details(job: Job | None, alerts: Sequence[AlertView], as_of_ms: int, width: int) -> Table:
    """All figures of one job, for people."""
    if job is None:
        return _table([("", "no longer among the jobs that the meter lists")])
    names = ("owner", "team", "project", "experiment", "cluster", "region", "purchase", "gpu_type")
    begun = "" if job.started_ms is None else f", started {instant(job.started_ms)}"
    ended = "" if job.ended_ms is None else f", ended {instant(job.ended_ms)}"
    rates = (
        f"{usd(job.usd_per_hour_now)} now, {usd(job.usd_per_hour)} over 5 min, {usd(job.usd_per_hour_15m)} over 15 min, "
        f"{usd(job.usd_per_hour_1h)} over 1 h, {usd(job.usd_per_hour_6h)} over 6 h"
    )
    ratio, style = ratio_sign(burning(job))
    trend = sparkline(job.sparkline, max(10, min(60, width - 24))).lstrip() or "-"
    about = [alert for alert in alerts if alert.subject.name == job.job_id]
    return _table(
        [
            ("job", visible(job.job_id)),
            *((name.replace("_", " "), visible(text)) for name in names if (text := getattr(job, name))),
            ("state", f"{visible(job.state)}, attempt {job.attempts}{begun}{ended}"),
            ("GPUs", f"{count(job.gpu_count)} now, {job.gpu_h:,.1f} GPU-hours so far"),
            ("$/h", rates),
            (
                "expected",
                Text.assemble(f"{usd(job.expected_usd_per_hour)} $/h, ratio ", (ratio.strip(), style)),
            ),
            ("cost", _cost(job)),
            ("productive", f"{percent(job.productive_ratio)} of sampled GPU-time, last 30 min"),
            ("trend", Text(trend, style)),
            ("alerts", alert_lines(about, as_of_ms) if about else Text("none", "dim")),
            ("why", visible(shlex.join(["trainfare", "explain", job.job_id]))),
        ]
    )


def help_table() -> Table:
    """The keys and the meaning of the signs."""
    return _table(
        [
            *_KEYS,
            ("", ""),
            (Text("●", "bold red"), "a page fires for the job"),
            (Text("○", "yellow"), "a ticket fires for the job"),
            (Text(f"{VERY_HIGH}▲▲", "bold red"), f"burns at least {VERY_HIGH} times what was expected"),
            (Text(f"{HIGH}▲", "yellow"), f"at least {HIGH} times"),
            (Text("1.0", "green"), "about as expected"),
            (Text(f"{LOW - 0.1:.1f}▽", "cyan"), f"less than {LOW} times"),
            ("ratio", "what the job burns now / what it was expected to; - where nothing is expected"),
            ("15m, 1h", "burn rate over the last 15 minutes, the last hour, in $/h"),
        ]
    )


def _table(rows: Sequence[tuple[str | Text, str | Text]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(*map(Text.assemble, row))  # Text: brackets in data are no markup
    return grid


def instant(at_ms: int) -> str:
    """Format a UTC instant with its day, since event time may be any day's."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if at_ms else "-"


def ago(for_ms: int) -> str:
    """Format a duration in its two largest units."""
    parts: list[str] = []
    left_ms = max(0, for_ms)
    for unit_ms, name in _UNITS:
        if left_ms >= unit_ms and len(parts) < 2:
            parts.append(f"{left_ms // unit_ms} {name}")
        elif parts:
            break
        left_ms %= unit_ms
    return " ".join(parts) or "0 s"


def percent(ratio: float | None) -> str:
    """Format a share; unknown is a dash, never 0."""
    return "-" if ratio is None else f"{ratio:.0%}".replace("%", " %")
