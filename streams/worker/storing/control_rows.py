"""Builds the rows of `controls`: what each record of the topic asked for, without an owner's address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson
import pyarrow as pa

from schemas.checks import money_nano
from schemas.columns import instants
from schemas.control_table import CONTROLS, SCHEMAS
from schemas.events import ControlEvent
from schemas.validate_controls import ACK
from streams.engine.alerts.budgets import MATCHED as BUDGET_MATCHED
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.receiver_records import KINDS as RECEIVER_KINDS
from streams.engine.state.dimensions import MATCHED

#: The kinds by which jobs are judged, and what may recur.
_JUDGING: Final = ("rule", "planned", "silence")
_ESCALATION: Final = ("escalate", "escalate_after_min")
_GONE: Final = ControlEvent(source="", id="", time_ms=0, kind="", name="")
_ALIASES: Final = {"job": "job_id"}
_MATCHED: Final = frozenset((*MATCHED, *BUDGET_MATCHED, "rule", "severity", "budget"))
#: Later ones do not fit DateTime64(3).
_LAST_MS: Final = 10_413_791_999_999


def control_table(log: Sequence[tuple[int, bytes, ControlEvent | None]], offsets: Sequence[int]) -> pa.Table:
    """Build one row per record.

    Args:
        log: (log time in ms, key, event) of each; an event of None removes the control of its key.
        offsets: The offset of each.
    """
    rows = [
        _row(offset, log_ms, key, event) for offset, (log_ms, key, event) in zip(offsets, log, strict=True)
    ]
    columns = {name: [row[name] for row in rows] for name in SCHEMAS[CONTROLS].names}
    times = {name: instants(columns[name]) for name in ("time", "begins", "until")}
    return pa.Table.from_pydict({**columns, **times}, schema=SCHEMAS[CONTROLS])


def _row(offset: int, log_ms: int, key: bytes, event: ControlEvent | None) -> dict[str, Any]:
    kind, _, name = key.decode("utf-8", "backslashreplace").partition("/")
    said = event or _GONE
    value = said.value
    understood = Controls.from_events([] if event is None else [event])
    return {
        "offset": offset,
        "time": log_ms,
        "kind": said.kind or kind,
        "name": said.name or name,
        "alert_id": _text(value, "alert_id") if said.kind == ACK else "",
        "match": list(_match(value).items()),
        "begins": _instant(value, "from_ms"),
        "until": _instant(value, "until_ms"),
        "planned_usd_per_hour": _rate(value) if said.kind == "planned" else None,
        "by": _text(value, "by"),
        "comment": _text(value, "comment") or _text(value, "reason"),
        "source": said.source,
        "id": said.id,
        "removed": event is None,
        "value": _settings(said.kind, value),
        "fault": "; ".join(fault.detail for fault in understood.faults),
        "version": offset + 1,
    }


def _settings(kind: str, value: Mapping[str, object]) -> str:
    """The settings of rules, plans and silences; of owners and teams the escalation alone, as their addresses are secrets."""
    if kind in RECEIVER_KINDS:
        value = {name: value[name] for name in _ESCALATION if name in value}
    elif kind not in _JUDGING:
        value = {}
    return orjson.dumps(value).decode() if value else ""


def _match(value: Mapping[str, object]) -> dict[str, str]:
    inner = value.get("match")
    found: dict[str, str] = {}
    for fields in (value, inner if isinstance(inner, Mapping) else {}):
        for given, wanted in fields.items():
            field = _ALIASES.get(given, given)
            if field in _MATCHED and isinstance(wanted, str):
                found[field] = wanted
    return found


def _text(value: Mapping[str, object], field: str) -> str:
    given = value.get(field)
    return given if isinstance(given, str) else ""


def _instant(value: Mapping[str, object], field: str) -> int | None:
    given = value.get(field)
    return min(given, _LAST_MS) if isinstance(given, int) else None


def _rate(value: Mapping[str, object]) -> Decimal | None:
    given = value.get("usd_per_hour")
    # A number of another type would have been refused.
    nano = money_nano("usd_per_hour", given if isinstance(given, str | int | float) else None)
    return None if nano is None else Decimal(nano).scaleb(-9)
