"""A store of two teams, with a marker in every text and number of one of them; and tokens bound to the other."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from schemas.events import ControlEvent
from schemas.tables import SCHEMAS
from schemas.validate_tokens import hash_of
from sinks.clickhouse import ClickHouseStore
from tests.web.serving import WALL_MS

MARKER: Final = "zqxmarker"
#: What a number of the other team is made of; as text within any sum of few rows of it.
NUMBER: Final = 98_765_432
OWN, OTHER = "vision", f"{MARKER}-team"
OWN_JOB, OTHER_JOB = "a-job", f"{MARKER}-job"
OWN_ALERT, OTHER_ALERT = f"al_{'1' * 24}", f"al_{str(NUMBER) * 3}"
_NOW: Final = datetime.fromtimestamp(WALL_MS // 1000, UTC)
_LEFT_OUT: Final = frozenset({"meta", "snapshots", "archive", "ledger_sums", "books", "change_seals"})
_KNOWN: Final[dict[str, Any]] = {
    "state": "running",
    "component": "gpu",
    "phase": "running",
    "severity": "page",
    "status": "firing",
    "subject_kind": "job",
    "kind": "silence",
    "per": "month",
    "unit": "gpu_s",
    "purchase": "spot",
    "rule": "burn_fast",
    "currency": "EUR",
    "outcome": "delivered",
    "cost": "billed",
    "mode": "off",
    "how": "tag",
    "type": "job",
    "charge_category": "Usage",
    "billing_currency": "USD",
}
#: Whose a marked row is anyway: of no team.
_OF_NOBODY: Final = frozenset({"prices", "fx_rates", "carbon_intensities"})


def fill(store: ClickHouseStore) -> None:
    """Put a row of each team into every table."""
    for table, schema in SCHEMAS.items():
        if table in _LEFT_OUT:
            continue
        # A receipt of the own job would have to be a whole message.
        teams = (False,) if table in _OF_NOBODY else (True,) if table == "receipts" else (False, True)
        rows = [{each.name: _cell(table, each, is_other=other) for each in schema} for other in teams]
        store.insert(table, pa.Table.from_pylist(rows, schema), f"marked {table}")


def _cell(table: str, field: Any, *, is_other: bool) -> Any:
    name, kind = field.name, field.type
    text = f"{MARKER}-{name}" if is_other else f"own-{name}"
    number = NUMBER if is_other else 3
    job, team = (OTHER_JOB, OTHER) if is_other else (OWN_JOB, OWN)
    if name in ("job_id", "subject_name", "resource_id", "team"):
        return team if name == "team" else job
    if name == "alert_id":
        return OTHER_ALERT if is_other else OWN_ALERT
    if name == "match" and pa.types.is_map(kind):
        return [("team", team)]
    if name == "margins":
        return f'[["{text}", 1, 1, 1, 0]]'
    if pa.types.is_string(kind):
        return "gpu_hour" if (table, name) == ("prices", "per") else _KNOWN.get(name, text)
    if name in ("version", "shard"):
        return int(name == "version")
    if pa.types.is_timestamp(kind):
        return None if name in ("resolved", "ended", "until") and table != "receipts" else _NOW
    return _value(kind, text, number, job)


def _value(kind: pa.DataType, text: str, number: int, job: str) -> Any:
    """A value by its type alone."""
    if pa.types.is_map(kind):
        return [(text, text if pa.types.is_string(kind.item_type) else number)]
    if pa.types.is_list(kind):
        return [job] if pa.types.is_string(kind.value_type) else [number]
    for is_kind, value in (
        (pa.types.is_binary, text.encode()),
        (pa.types.is_date, _NOW.date()),
        (pa.types.is_boolean, False),
        (pa.types.is_decimal, Decimal(number)),
        (pa.types.is_floating, float(number)),
    ):
        if is_kind(kind):
            return value
    return min(number, {pa.uint8(): 200, pa.uint16(): 65_000, pa.int8(): 100}.get(kind, number))


def token_of(name: str, *scopes: str, teams: tuple[str, ...] = ()) -> tuple[str, dict[bytes, ControlEvent]]:
    """A token with these scopes, and its record."""
    token = f"trainfare_{name:_<43}"
    value: dict[str, object] = {
        "hash": hash_of(token),
        "scopes": list(scopes),
        "teams": list(teams),
        "by": "test",
    }
    event = ControlEvent("test", name, WALL_MS, "token", name, value)
    return token, {f"token/{name}".encode(): event}
