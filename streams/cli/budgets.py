"""`trainfare budgets`: what every budget has used, when it will be used up, and what was done because of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Final

import typer

from schemas.counting import how_many
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, money, to_json, usd, write
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.costs.request import currency_of

_BAR: Final = 20
_COLUMNS: Final = ("budget", "subject", "per", "used", "", "spent of limit", "used up", "actions", "override")
_UNITS: Final = {"gpu_hours": "GPU-h", "wall_clock_hours": "h"}


def budgets(
    data: DataOption = None,
    currency: Annotated[
        str,
        typer.Option(metavar="CODE", help="Dollars in this currency, too, at the newest rate: e.g. EUR."),
    ] = "",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what every budget has used; the most used first."""
    from streams.costs import budgets as stored  # loads the engine

    at_ms = SystemClock().now_ms()
    code = currency_of("--currency", currency)
    with reader(settings_for(data)) as store:
        answer = stored.budgets(
            store.records(stored.USED),
            store.records(stored.TAKEN),
            store.records(stored.RECORDS, at_ms=at_ms),
            at_ms,
        )
        if code:
            steps = stored.converted_steps(answer, code, at_ms)
            answer = store.answered(steps)
    if form is OutputFormat.json:
        sys.stdout.write(to_json(answer) + "\n")
        return
    bars = form is OutputFormat.table and sys.stdout.isatty()
    columns = _COLUMNS if bars else tuple(filter(None, _COLUMNS))
    rows = [_row(each, bars=bars) for each in answer["budgets"]]
    if code:
        columns = (*columns, f"{code} of limit")
        rows = [[*row, _in_currency(each, code)] for row, each in zip(rows, answer["budgets"], strict=True)]
    write(Grid(columns, rows), form)
    if code and form is OutputFormat.table:
        rate = answer["rate"]
        sys.stdout.write(
            f"{rate['rate_units']} {code} for {rate['rate_dollars']} USD of {rate['rate_day']}\n"
        )
    if not rows and form is OutputFormat.table:
        sys.stdout.write("no budget has been judged; see docs/budgets.md\n")


def _row(budget: Mapping[str, Any], *, bars: bool) -> list[str]:
    used = budget["used"]
    name = budget["budget"] or "the job's own"
    if used is None:
        return [name, _names(budget["match"]), "", "not judged yet", *([""] * (5 if bars else 4))]
    subject = budget["subject"]
    override = budget["override"]
    about = f"{subject['kind']} {subject['name']}".strip()
    if (budget["job_count"] or 1) > 1:
        about = f"run of {how_many(budget['job_count'], 'job')} from {subject['name']} on"
    cells = [name, about, budget["per"], f"{used['ratio']:.1%}"]
    if bars:
        cells.append(bar(used["ratio"]))
    cells += [
        _spent(used),
        _forecast(budget),
        ", ".join(_action(each) for each in budget["actions"]),
        "" if override is None else f"{override['name']}, until {_until(override['until_ms'])}",
    ]
    return cells


def _in_currency(budget: Mapping[str, Any], currency: str) -> str:
    amounts = (budget["used"] or {}).get("currency")
    return (
        ""
        if amounts is None
        else f"{money(amounts['used'], currency)} of {money(amounts['limit'], currency)}"
    )


def bar(ratio: float) -> str:
    """A bar of the used share; full from 100 % on."""
    full = min(max(int(ratio * _BAR), 0), _BAR)
    return "█" * full + "░" * (_BAR - full)


def _names(match: Mapping[str, str]) -> str:
    return ", ".join(f"{field} {name}" for field, name in match.items()) or "fleet"


def _spent(used: Mapping[str, Any]) -> str:
    parts = []
    if used["usd"] is not None:
        parts.append(f"${usd(Decimal(used['usd']['used']))} of ${usd(Decimal(used['usd']['limit']))}")
    parts += [
        f"{used[unit]['used']:,.1f} of {used[unit]['limit']:,.1f} {word}"
        for unit, word in _UNITS.items()
        if used[unit] is not None
    ]
    return ", ".join(parts)


def _forecast(budget: Mapping[str, Any]) -> str:
    if budget["used"]["ratio"] >= 1:
        return "used up"
    return "" if budget["exhausted_ms"] is None else _until(budget["exhausted_ms"])


def _until(at_ms: int | None) -> str:
    return "for ever" if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _action(action: Mapping[str, Any]) -> str:
    dry = "dry run: " if action["mode"] == "dry_run" else ""
    jobs = f" ({action['jobs']} jobs)" if action["jobs"] > 1 else ""
    return f"{dry}{action['rung']} {action['state']}{jobs}"
