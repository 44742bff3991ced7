"""Records of operators: a name and an owner, or a fault that says what is wrong."""

from __future__ import annotations

import pytest

from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.operator_records import OPERATED
from streams.engine.rules.incident import operator_of
from streams.engine.rules.registry import LEDGER_RULES
from streams.engine.rules.shared_cause import cause_text


def controls(name: str, value: dict[str, object]) -> Controls:
    return Controls.from_events(
        [ControlEvent(source="t", id="1", time_ms=1, kind="operator", name=name, value=value)]
    )


def test_it_names_an_owner() -> None:
    assert controls("prices", {"owner": "finops", "comment": "c"}).operators == {"prices": "finops"}


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("price", {"owner": "ada"}, "name: expected one of prices, sources, nodes; did you mean prices?"),
        ("prices", {}, "owner: expected the name of an owner record"),
        ("prices", {"owner": ""}, "owner: expected"),
        ("prices", {"owner": 5}, "owner: expected"),
        ("prices", {"owner": "ada", "team": "x"}, "team: no such field"),
    ],
)
def test_one_that_cannot_be_meant_has_no_effect(name: str, value: dict[str, object], detail: str) -> None:
    found = controls(name, value)
    assert found.operators == {}
    assert [(each.kind, each.name) for each in found.faults] == [("operator", name)]
    assert detail in found.faults[0].detail


def test_rules_and_causes_ask_for_no_other_operators() -> None:
    asked = {rule.operator for rule in LEDGER_RULES.values()}
    asked |= {operator_of(cause_text(kind, "a", "b", "c")) for kind in ("price", "silence", "sweep")}
    assert asked - {""} == set(OPERATED)
