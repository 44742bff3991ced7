"""Owners' wishes of the `controls` topic: which records stand, and what their match fields match.

It is asked with the fields of a job or of an alert.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from tests.oracle.model import Json
from tests.oracle.timeline import Attempt

# The fields of a control that match nothing: its identity, its time and what it says.
NOT_MATCHED = frozenset(
    ("source", "id", "time_ms", "kind", "name", "from_ms", "until_ms", "comment", "usd_per_hour", "match")
)
OF_RULES = frozenset(("rule", "enabled", "severity", "thresholds"))
ENDLESS_MS = 2**62


def standing(controls: Iterable[Json]) -> dict[tuple[str, str], Json]:
    """The last record in the log of each (kind, name): the topic is compacted by that key."""
    return {(control["kind"], control["name"]): control for control in controls}


def asked(control: Json) -> dict[str, str]:
    """The match fields of a record of a rule."""
    wanted = {name: value for name, value in control.items() if name not in NOT_MATCHED | OF_RULES}
    wanted |= control.get("match") or {}
    if "job" in wanted:
        wanted["job_id"] = wanted.pop("job")
    return {name: value for name, value in wanted.items() if value is not None}


def matches(control: Json, fields: Mapping[str, str | None]) -> bool:
    """Whether every match field equals that of the job or alert; no match field matches all."""
    wanted = {name: value for name, value in control.items() if name not in NOT_MATCHED}
    wanted |= control.get("match") or {}
    if "job" in wanted:  # another name of the same field
        wanted["job_id"] = wanted.pop("job")
    return all(fields.get(name) == value for name, value in wanted.items() if value is not None)


def period(control: Json) -> tuple[int, int]:
    """From when (absent: ever) until when (absent: for ever) a control holds."""
    from_ms, until_ms = control.get("from_ms"), control.get("until_ms")
    return (-ENDLESS_MS if from_ms is None else from_ms, ENDLESS_MS if until_ms is None else until_ms)


def nano(value: str | float) -> int:
    """Nano-dollars of "number or decimal string"."""
    return round(Decimal(str(value)) * 10**9)


def dimensions_of(
    job_id: str, said: Mapping[str, str | None], attempts: Sequence[Attempt]
) -> dict[str, str | None]:
    """What controls can match of a job: whose it is, and where its highest attempt is."""
    own = {name: said.get(name) for name in ("owner", "team", "project", "experiment")}
    return {**attempts[-1].final.fields, **own, "job_id": job_id}
