"""Raises the limits of a budget: all else of the record in force is kept, its webhook and actions too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from schemas.refusal import shown
from streams.engine.alerts.budgets import Limits, budget_of
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.reference_log import Standing
from streams.web.errors import ApiError

BUDGET: Final = "budget"
#: Names the limits that a reader saw, and makes a record one that raises them.
REPLACES: Final = "replaces"
_LIMITS: Final = {"usd": "usd_nano", "gpu_hours": "gpu_milli_ms", "wall_clock_hours": "wall_clock_ms"}
_FIELDS: Final = frozenset({"kind", "name", REPLACES, "comment", *_LIMITS})
#: Of the record in force: who wrote it and why is said anew.
_SAID_ANEW: Final = frozenset({"by", "comment", "specversion"})


class RaisedBudget(NamedTuple):
    """What was asked for without `replaces`, and what the record in force has besides."""

    asked: dict[str, Any]
    kept: dict[str, object]


def is_raise(asked: Mapping[str, Any]) -> bool:
    """Whether a record is to raise the limits of a budget."""
    return asked.get("kind") == BUDGET and REPLACES in asked


def raised_budget(asked: Mapping[str, Any], standing: Standing) -> RaisedBudget:
    """The record that has the new limits, and all else as it is in force.

    Raises:
        ApiError: No budget of the name is in force, it was changed meanwhile, or nothing would be raised.
    """
    if unknown := sorted(set(asked) - _FIELDS):
        raise ApiError(
            400,
            f"{unknown[0]}: what raises a budget has {', '.join(sorted(_FIELDS))} alone",
            field=unknown[0],
        )
    name, replaced = asked.get("name"), asked[REPLACES]
    event = next((each for each in standing.values() if each.kind == BUDGET and each.name == name), None)
    if event is None:
        raise ApiError(
            404, f"name: no record of a budget {shown(name)} is in force here", "no_such_budget", field="name"
        )
    if not isinstance(replaced, dict) or not replaced or not set(replaced) <= set(_LIMITS):
        raise ApiError(
            400, f"{REPLACES}: expected the limits in force, of {', '.join(_LIMITS)}", field=REPLACES
        )
    present, seen = _limits(event.value, "in force"), _limits(replaced, REPLACES)
    for field, unit in _LIMITS.items():
        if field in replaced and getattr(seen, unit) != getattr(present, unit):
            said = shown(event.value.get(field))
            raise ApiError(
                409,
                f"{field}: it was changed meanwhile, the limit in force is {said}",
                "changed",
                field=field,
            )
    new = {field: asked[field] for field in _LIMITS if asked.get(field) is not None}
    if not new:
        raise ApiError(400, f"usd: expected at least one of {', '.join(_LIMITS)}", field="usd")
    wanted = _limits(new, "asked for")
    for field in new:
        if field not in replaced:
            raise ApiError(400, f"{field}: {REPLACES} does not name it", field=field)
        if getattr(wanted, _LIMITS[field]) <= getattr(present, _LIMITS[field]):
            said = shown(event.value.get(field))
            raise ApiError(400, f"{field}: raises nothing, the limit in force is {said}", field=field)
    kept = {field: value for field, value in event.value.items() if field not in _SAID_ANEW}
    return RaisedBudget({field: value for field, value in asked.items() if field != REPLACES}, kept)


def _limits(fields: Mapping[str, Any], where: str) -> Limits:
    try:
        return budget_of("", {field: fields.get(field) for field in _LIMITS}, {}).limits
    except MalformedControlError as fault:
        raise ApiError(400, f"{where}: {fault}") from None
