"""`trainfare gate`: whether the budgets leave enough, as an exit code for pipelines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated

import orjson
import typer

from schemas.escaping import visible
from streams.cli.faults import DONE, FAILED
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, OutputFormat
from streams.cli.reading import reader
from streams.costs.headroom import HEADROOM, LEVELS, Left, least, lefts
from streams.errors import WrongUseError


def gate(
    data: DataOption = None,
    team: Annotated[str, typer.Option(help="Name of the team whose budgets are looked up.")] = "",
    owner: Annotated[str, typer.Option(help="Name of the owner whose budgets are looked up.")] = "",
    project: Annotated[str, typer.Option(help="Name of the project whose budgets are looked up.")] = "",
    experiment: Annotated[str, typer.Option(help="Name of the experiment whose budgets are looked up.")] = "",
    job: Annotated[
        str,
        typer.Option(metavar="ID", help="Id of the job whose budgets are looked up, those per run included."),
    ] = "",
    need: Annotated[str, typer.Option(metavar="USD", help="Dollars that are needed.")] = "",
    gpu_hours: Annotated[float, typer.Option(min=0, help="GPU-hours that are needed.")] = 0.0,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Exit with 0 if the budgets leave what is needed, with 1 if not."""
    named = zip(LEVELS, (team, owner, project, experiment, job), strict=True)
    asked = {name: value for name, value in named if value}
    if not asked:
        raise WrongUseError("gate: name --team, --owner, --project, --experiment or --job")
    needed = _usd(need)
    with reader(settings_for(data)) as store:
        found = lefts(store.records(HEADROOM, job=job), asked)
    over = [each for each in found if _is_over(each, needed, gpu_hours)]
    if form is OutputFormat.json:
        answer = {
            "ok": not over,
            "need_usd": f"{needed:f}",
            "need_gpu_hours": gpu_hours,
            **asked,
            **least(found),
        }
        sys.stdout.write(orjson.dumps(answer).decode() + "\n")
    else:
        whose = ", ".join(f"{name} {visible(value)}" for name, value in asked.items())
        sys.stdout.write(f"{_line(whose, found, over, needed, gpu_hours)}\n")
    raise typer.Exit(FAILED if over else DONE)


def _usd(text: str) -> Decimal:
    try:
        usd = Decimal(text or "0")
        if not (usd.is_finite() and usd >= 0):
            raise InvalidOperation
    except InvalidOperation:
        raise WrongUseError(f"--need {visible(text)}: expected dollars, e.g. 120") from None
    return usd


def _is_over(left: Left, usd: Decimal, gpu_hours: float) -> bool:
    """Whether a budget leaves less, or nothing at all."""
    pairs = ((left.usd, usd), (left.gpu_hours, gpu_hours), (left.wall_clock_hours, 0))
    return any(rest is not None and (rest < need or rest == 0) for rest, need in pairs)


def _line(whose: str, found: Sequence[Left], over: Sequence[Left], usd: Decimal, gpu_hours: float) -> str:
    wanted = " and ".join(
        filter(None, (f"${usd:,.2f}" if usd else "", f"{gpu_hours:g} GPU-hours" if gpu_hours else ""))
    )
    if not found:
        return f"go: no budget limits {whose}"
    tightest = (over or found)[0]
    left = _rest(tightest)
    name = f"budget {visible(tightest.budget)}" if tightest.budget else "its own budget"
    of = f"of {name} ({visible(tightest.subject)}, {_period(tightest.per)})"
    if over:
        return f"stop: {whose} needs {wanted or 'anything'}, {left} is left {of}"
    return f"go: {left} is left {of}" + (f", {wanted} needed" if wanted else "")


def _period(per: str) -> str:
    return "in total" if per == "total" else f"per {per}"


def _rest(left: Left) -> str:
    parts = []
    if left.usd is not None:
        parts.append(f"${left.usd:,.2f}")
    if left.gpu_hours is not None:
        parts.append(f"{left.gpu_hours:,.1f} GPU-hours")
    if left.wall_clock_hours is not None:
        parts.append(f"{left.wall_clock_hours:,.1f} hours of run time")
    return " and ".join(parts)
