"""What a chaos run wants of the rules by the hour."""

from __future__ import annotations

import pytest

from tests.chaos.hourly import left_over
from tests.oracle.ledger_rules import Costs, JobUse, NodeHour
from tests.oracle.model import HOUR_MS, Json

END_MS = 10 * HOUR_MS
BEGIN_MS = END_MS - HOUR_MS


def node(name: str, gpu_type: str, hour_ms: int = BEGIN_MS) -> NodeHour:
    return NodeHour(name, hour_ms, "", "", "", HOUR_MS, 8_000 * HOUR_MS, 10**9, gpu_type)


def told(started_ms: int, resolved_ms: int | None, rule: str = "empty_group") -> Json:
    return {"rule": rule, "subject_name": "/H100", "started_ms": started_ms, "resolved_ms": resolved_ms}


@pytest.mark.parametrize(
    ("alert", "is_left"),
    [
        (told(BEGIN_MS + 60_000, BEGIN_MS + 120_000), False),
        (told(BEGIN_MS - 60_000, None), False),
        (told(BEGIN_MS - 60_000, BEGIN_MS), True),  # it was over when the hour began
        (told(END_MS + 60_000, None), True),
        (told(BEGIN_MS, None, "unallocated"), True),
    ],
)
def test_empty_nodes_that_an_alert_has_named_are_not_wanted_again(alert: Json, is_left: bool) -> None:
    lone, before, other, used = (
        node("lone", "H100"), node("lone", "H100", BEGIN_MS - HOUR_MS), node("other", "A100"), node("used", "H100"),
    )  # fmt: skip
    use = JobUse("used", BEGIN_MS, 10**9)
    found = left_over(Costs(nodes=[lone, before, other, used], uses=[use]), [alert], END_MS)
    assert (lone in found.nodes) == is_left
    assert [each for each in found.nodes if each is not lone] == [before, other, used]
