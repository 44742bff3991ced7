"""What a job says of itself beside its cost: its progress and quality, its checkpoints, and its rate beside the expected one while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from streams.cli.output import usd

if TYPE_CHECKING:
    from streams.cli.reading import Reader

_SAID: Final = "SELECT progress, quality FROM jobs FINAL WHERE job_id = {job:String}"
_MEASURES: Final = ("progress", "quality")
_SAVES: Final = """
SELECT count() AS total, if(total = 0, NULL, toUnixTimestamp64Milli(max(time))) AS newest_ms FROM job_checkpoints FINAL WHERE job_id = {job:String}"""
_RATES: Final = """
SELECT usd_per_hour_now, expected_usd_per_hour FROM burn_rates FINAL WHERE job_id = {job:String} ORDER BY time DESC LIMIT 1"""


def job_now(store: Reader, job_id: str, state: object) -> dict[str, Any]:
    """The figures, each None or empty where it is not known; rates are of a job that has not ended alone."""
    from streams.engine.timeline.states import HOLDING_STATES

    said: list[dict[str, Any]] = store.records(_SAID, job=job_id)
    (saves,) = store.records(_SAVES, job=job_id)
    rates = store.records(_RATES, job=job_id) if state in HOLDING_STATES else []
    return {
        **{name: dict(said[0][name]) if said else {} for name in _MEASURES},
        "checkpoints": {"total": saves["total"], "newest_ms": saves["newest_ms"]},
        "usd_per_hour_now": rates[0]["usd_per_hour_now"] if rates else None,
        "expected_usd_per_hour": rates[0]["expected_usd_per_hour"] if rates else None,
    }


def lines_of(now: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines for people: only what is known."""
    from streams.engine.rules.formatting import instant

    lines = [
        (measures, ", ".join(f"{name} {value:g}" for name, value in now[measures].items()))
        for measures in _MEASURES
        if now[measures]
    ]
    saves = now["checkpoints"]
    if saves["total"]:
        lines.append(("checkpoints", f"{saves['total']}, the last at {instant(saves['newest_ms'])}"))
    if now["usd_per_hour_now"] is not None:
        expected = now["expected_usd_per_hour"]
        beside = f", {usd(expected)} expected" if expected else ""
        lines.append(("usd_per_hour", f"{usd(now['usd_per_hour_now'])} now{beside}"))
    return lines


def are_stored(costs: dict[str, Any], attempts: list[dict[str, Any]], spent: list[dict[str, Any]]) -> bool:
    """Whether the amounts of a job are stored: those of an attempt that has just begun are so some seconds later."""
    began = any(
        each["started"] is not None and (each["ended"] is None or each["ended"] > each["started"])
        for each in attempts
    )
    return bool(spent or costs["cost_usd"] or not began)
