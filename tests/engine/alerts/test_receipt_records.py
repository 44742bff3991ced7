"""Records of kind `receipt`: who wants receipts, and what has no effect and why."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.receipt_records import ReceiptRecord


def controls(name: str = "ada", time_ms: int = 7, **value: Any) -> Controls:
    return Controls.from_events(
        [ControlEvent(source="s", id="1", time_ms=time_ms, kind="receipt", name=name, value=value)]
    )


def test_the_owner_is_the_name_unless_another_is_named() -> None:
    assert controls(on=True).receipts == (ReceiptRecord("ada", "ada", "", True, 7),)
    team = controls("vision", team="vision", owner="ada", on=False, comment="c", by="t", id_=None)
    assert team.receipts == (ReceiptRecord("vision", "ada", "vision", False, 7),)


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({}, "on: got null, expected true or false"),
        ({"on": 1}, "on: got 1, expected true or false"),
        ({"on": "true"}, 'on: got "true", expected true or false'),
        (
            {"on": True, "teem": "x"},
            "teem: no such field, expected one of by, comment, on, owner, team; did you mean team?",
        ),
        ({"on": True, "owner": ""}, "owner: expected a string that is not empty"),
        ({"on": True, "team": ["x"]}, "team: expected a string that is not empty"),
    ],
)
def test_an_invalid_record_has_no_effect_and_says_why(value: dict[str, Any], detail: str) -> None:
    found = controls(**value)
    assert found.receipts == ()
    assert [(fault.kind, fault.name, fault.detail) for fault in found.faults] == [("receipt", "ada", detail)]
