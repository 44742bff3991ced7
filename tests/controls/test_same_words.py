"""A control without effect is refused in the same words by `publish`, `apply` and `POST /api/v1/controls`, and read so by a worker."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.controls.file import read_controls_file
from streams.controls.plan import APPLIED, plan_of
from streams.engine.alerts.beside_others import fault_beside
from streams.engine.alerts.ineffective import faults_of, field_and_reason
from streams.web.control_record import FieldError, control_record

NOW_MS = 1_795_000_000_000
LATER_MS = NOW_MS + 3_600_000


def toml(kind: str, fields: dict[str, Any]) -> str:
    """JSON of a value of one line is TOML, but for objects."""

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {text(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]"
        return json.dumps(value)

    return f'[[{kind}]]\nname = "n"\n' + "".join(f"{key} = {text(value)}\n" for key, value in fields.items())


WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("budget", {"usd": 1, "tem": "vision"}),
    ("budget", {"usd": 0}),
    ("budget", {"usd": 1, "per": "fortnight"}),
    ("budget", {"usd": 1, "actions": [{"do": "stop", "at": 1}, {"do": "notify", "at": 0.5}]}),
    ("budget", {"usd": 1, "actions": ["chekpoint"]}),
    ("silence", {"until_ms": LATER_MS, "match": {"tem": "vision"}}),
    ("silence", {"until_ms": LATER_MS, "rule": "burn_fsat"}),
    ("silence", {"until_ms": LATER_MS, "rule": "unallocated", "team": "a"}),
    ("silence", {"until_ms": LATER_MS, "from_ms": LATER_MS + 1, "team": "a"}),
    ("planned", {"until_ms": LATER_MS, "team": "a", "usd_per_hour": True}),
    ("planned", {"until_ms": LATER_MS, "team": "a", "usd_per_hour": 1, "untill": 5}),
    ("receipt", {"owner": "a", "on": "yes"}),
)


@pytest.mark.parametrize(("kind", "fields"), WRONG)
def test_of_what_is_wrong_by_itself(kind: str, fields: dict[str, Any]) -> None:
    value = {"source": "t", "id": "1", "time_ms": NOW_MS, "kind": kind, "name": "n", **fields}
    (published,) = faults_of(decode("controls", msgspec.json.encode(value), (), NOW_MS))
    detail = published.removeprefix(f"{kind}/n: ")
    (applied,) = read_controls_file("f.toml", toml(kind, fields), APPLIED, NOW_MS).faults
    assert applied.partition(f": {kind}/n: ")[2] == detail
    with pytest.raises(FieldError) as posted:
        control_record({"kind": kind, "name": "n", **fields}, "web", NOW_MS)
    assert (posted.value.field, str(posted.value)) == field_and_reason(detail)


def test_of_what_has_ended() -> None:
    fields = {"team": "a", "until_ms": NOW_MS - 1}
    records = read_controls_file("f.toml", toml("silence", fields), APPLIED, NOW_MS).records
    (applied,) = plan_of(records, {}, APPLIED, NOW_MS, prune=False).faults
    event = decode("controls", records[0].value, (), NOW_MS)
    assert isinstance(event, ControlEvent)
    published = fault_beside(event, None, (), NOW_MS)
    assert applied == f"f.toml line 4: silence/n: {published}"
    with pytest.raises(FieldError) as posted:
        control_record({"kind": "silence", **fields}, "web", NOW_MS)
    assert f"until_ms: {posted.value}" == published
