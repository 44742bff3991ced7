"""Shows the outcome of backtests: tables for people, JSON for programs. Of several rule files side by side."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from schemas.durations import MINUTE_MS
from streams.backtest.fired import Backtest, FiredAlert
from streams.backtest.score import KindScore, Noise, RuleCount
from streams.cli.output import Grid, OutputFormat, to_json, usd, write

_Figure = TypeVar("_Figure", int, Decimal)

_DEFAULTS: Final = "defaults"
_MEDIAN: Final = 0.5
_MOST: Final = 0.9
_DIGITS: Final = 4
_CENT_MILLIONTH: Final = Decimal("0.000001")


@dataclass(frozen=True)
class BacktestReport:
    """One log under one file of rules; `unlabelled` and `kinds` need labels."""

    backtest: Backtest
    noise: Noise
    unlabelled: Noise | None
    rules: list[RuleCount]
    kinds: list[KindScore]


def as_json(reports: Sequence[BacktestReport], first: int) -> str:
    """One object for each file of rules; money is a decimal string, times are ms since 1970 UTC."""
    return to_json([_object(report, first) for report in reports]) + "\n"


def as_tables(reports: Sequence[BacktestReport], first: int) -> str:
    """The tables; with several files of rules the first column says which."""
    grids = [_summary(reports), _failed(reports), _rules(reports), _first(reports, first), _kinds(reports)]
    out = io.StringIO()
    for grid in grids:
        if grid.rows:
            out.write("\n" if out.tell() else "")
            write(_without_name(grid) if len(reports) == 1 else grid, OutputFormat.table, out)
    return out.getvalue()


def _without_name(grid: Grid) -> Grid:
    return Grid(grid.columns[1:], [row[1:] for row in grid.rows])


def _name(report: BacktestReport) -> str:
    return report.backtest.rules or _DEFAULTS


def _summary(reports: Sequence[BacktestReport]) -> Grid:
    columns = (
        "rules", "jobs of", "jobs", "job-days", "pages", "tickets", "pages per job-day", "tickets per job-day",
    )  # fmt: skip
    rows = []
    for report in reports:
        parts = [("the log", report.noise), ("no label", report.unlabelled)]
        for what, noise in parts:
            if noise is not None:
                counts = (noise.jobs, f"{noise.job_days:.2f}", noise.pages, noise.tickets)
                shares = (f"{noise.pages_per_job_day:.4f}", f"{noise.tickets_per_job_day:.4f}")
                rows.append((_name(report), what, *counts, *shares))
    return Grid(columns, rows)


def _failed(reports: Sequence[BacktestReport]) -> Grid:
    rows = [(_name(report), *failed) for report in reports for failed in report.backtest.failed_rules]
    return Grid(("rules", "rule by SQL that failed", "times", "why, at last"), rows)


def _rules(reports: Sequence[BacktestReport]) -> Grid:
    has_labels = any(report.unlabelled is not None for report in reports)
    columns: tuple[str, ...] = (
        "rules", "rule", "severity", "alerts", "messages", "silenced", "subjects", "per job-day",
    )  # fmt: skip
    rows: list[tuple[object, ...]] = []
    for report in reports:
        for count in report.rules:
            row = (
                _name(report), count.rule, count.severity, len(count.alerts), count.messages, count.silenced,
                len({alert.subject for alert in count.alerts}), f"{_per_day(count, report):.4f}",
            )  # fmt: skip
            rows.append((*row, _percent(count.precision)) if has_labels else row)
    return Grid((*columns, "precision") if has_labels else columns, rows)


def _first(reports: Sequence[BacktestReport], first: int) -> Grid:
    rows = []
    for report in reports:
        alerts = [alert for count in report.rules for alert in count.alerts[:first]]
        for alert in sorted(alerts, key=lambda alert: alert.started_ms):
            until = "still firing" if alert.resolved_ms is None else _instant(alert.resolved_ms)
            rows.append(
                (_name(report), _instant(alert.started_ms), until, alert.severity, alert.rule, alert.summary)
            )
    return Grid(("rules", "fired", "until", "severity", "rule", "what it says"), rows)


def _kinds(reports: Sequence[BacktestReport]) -> Grid:
    columns = (
        "rules", "kind", "caught by", "labels", "recall", "min until it, median", "90 %", "dollars until it, median",
        "90 %",
    )  # fmt: skip
    rows = []
    for report in reports:
        for score in report.kinds:
            delays, costs = score.delays_ms(), score.costs_usd()
            shown = [_minutes(at(delays, share)) for share in (_MEDIAN, _MOST)]
            shown += [_dollars(at(costs, share)) for share in (_MEDIAN, _MOST)]
            rows.append(
                (_name(report), score.kind, score.rule, len(score.detections), _percent(score.recall), *shown)
            )
    return Grid(columns, rows)


def at(figures: Sequence[_Figure], share: float) -> _Figure | None:
    """The smallest of sorted figures that at least this share of them do not exceed; None without any."""
    return figures[max(math.ceil(share * len(figures)), 1) - 1] if figures else None


def _per_day(count: RuleCount, report: BacktestReport) -> float:
    return count.messages / report.noise.job_days if report.noise.job_days else 0.0


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _minutes(ms: int | None) -> str:
    return "" if ms is None else f"{ms / MINUTE_MS:.1f}"


def _dollars(amount: Decimal | None) -> str:
    return "" if amount is None else usd(amount)


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _object(report: BacktestReport, first: int) -> dict[str, Any]:
    found = report.backtest
    made: dict[str, Any] = {
        "rules": found.rules or None,
        "records_in": found.records_in,
        "dead_lettered": found.dead_lettered,
        **_noise(report.noise),
        "failed_rules": [failed._asdict() for failed in found.failed_rules],
        "by_rule": [_rule(count, report, first) for count in report.rules],
    }
    if report.unlabelled is not None:
        made["without_label"] = _noise(report.unlabelled)
        made["by_kind"] = [dict(_kind(score)) for score in report.kinds]
    return made


def _noise(noise: Noise) -> dict[str, Any]:
    return {
        "jobs": noise.jobs,
        "job_days": round(noise.job_days, _DIGITS),
        "pages": noise.pages,
        "tickets": noise.tickets,
        "pages_per_job_day": round(noise.pages_per_job_day, _DIGITS + 2),
        "tickets_per_job_day": round(noise.tickets_per_job_day, _DIGITS + 2),
    }


def _rule(count: RuleCount, report: BacktestReport, first: int) -> dict[str, Any]:
    return {
        "rule": count.rule,
        "severity": count.severity,
        "alerts": len(count.alerts),
        "messages": count.messages,
        "silenced": count.silenced,
        "subjects": len({alert.subject for alert in count.alerts}),
        "per_job_day": round(_per_day(count, report), _DIGITS + 2),
        "precision": None if count.precision is None else round(count.precision, _DIGITS),
        "first": [_alert(alert) for alert in count.alerts[:first]],
    }


def _alert(alert: FiredAlert) -> dict[str, Any]:
    return {
        "subject_kind": alert.subject_kind,
        "subject": alert.subject,
        "started_ms": alert.started_ms,
        "resolved_ms": alert.resolved_ms,
        "summary": alert.summary,
    }


def _kind(score: KindScore) -> Iterator[tuple[str, Any]]:
    delays, costs = score.delays_ms(), score.costs_usd()
    yield from {"kind": score.kind, "caught_by": score.rule, "labels": len(score.detections)}.items()
    yield "recall", round(score.recall, _DIGITS)
    for name, share in (("median", _MEDIAN), ("p90", _MOST)):
        yield f"delay_{name}_ms", at(delays, share)
        cost = at(costs, share)
        yield f"cost_{name}_usd", None if cost is None else cost.quantize(_CENT_MILLIONTH)
