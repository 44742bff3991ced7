"""Raising a budget over HTTP: all else of the record in force is kept, and what would raise nothing is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.topics import Topic
from tests.web.serving import WALL_MS
from tests.web.test_controls import WRITE, Log, posted

NAME = "month {usd:String} \u202egnp"
IN_FORCE: dict[str, Any] = {
    "source": "platform", "id": "1", "time_ms": WALL_MS - 1, "kind": "budget", "name": NAME, "subject": "team/vision",
    "usd": "1000", "gpu_hours": 33.333333, "per": "month", "actions": ["notify", {"do": "stop", "at": 1.05}], "grace_s": 120,
    "webhook": "https://hooks.example.com/secret", "contact": "ada", "comment": "of the year", "by": "ops",
}  # fmt: skip
RAISE: dict[str, Any] = {"kind": "budget", "name": NAME, "replaces": {"usd": "1000.000000000"}, "usd": "1500.5", "comment": "the paper is due"}  # fmt: skip


def control(fields: dict[str, Any]) -> ControlEvent:
    event = decode(Topic.CONTROLS, json.dumps(fields).encode(), (), WALL_MS)
    assert isinstance(event, ControlEvent), event
    return event


def asked(body: dict[str, Any], in_force: dict[str, Any] | None = IN_FORCE) -> tuple[int, Any, Log]:
    log = Log()
    standing = {} if in_force is None else {b"budget": control(in_force), b"rule": control({**RULE})}
    status, found = posted(body, log, write_token=WRITE, standing=standing)
    return status, found, log


RULE = {"source": "p", "id": "2", "time_ms": WALL_MS - 1, "kind": "silence", "name": NAME, "rule": "burn_fast", "until_ms": WALL_MS + 1}  # fmt: skip


def test_all_but_the_limit_stays_as_it_is_in_force() -> None:
    status, found, log = asked(RAISE)
    assert status == 202, found
    assert found == {"kind": "budget", "name": NAME, "id": found["id"], "by": "web.write_token"}
    ((key, value),) = log.records
    assert key == f"budget/{NAME}".encode()
    event = decode(Topic.CONTROLS, value, (), WALL_MS)
    assert isinstance(event, ControlEvent)
    before, after = (Controls.from_events([each]).budgets[0] for each in (control(IN_FORCE), event))
    assert after.limits.usd_nano == 1_500_500_000_000
    assert after.limits.gpu_milli_ms == before.limits.gpu_milli_ms
    for name in ("name", "match", "per", "escalation_steps", "grace_ms", "webhook", "contact"):
        assert getattr(after, name) == getattr(before, name), name
    assert (event.value["by"], event.value["comment"]) == ("web.write_token", "the paper is due")


def test_each_limit_is_raised_by_its_own_figure() -> None:
    hours = {"kind": "budget", "name": NAME, "replaces": {"gpu_hours": 33.333333}, "gpu_hours": 40}
    _, _, log = asked(hours)
    event = decode(Topic.CONTROLS, log.records[0][1], (), WALL_MS)
    assert isinstance(event, ControlEvent)
    assert (event.value["gpu_hours"], event.value["usd"]) == (40, "1000")
    assert "comment" not in event.value


@pytest.mark.parametrize(
    ("changes", "status", "field", "said"),
    [
        ({"usd": "1000"}, 400, "usd", "raises nothing, the limit in force is"),
        ({"usd": "999.999999999"}, 400, "usd", "raises nothing"),
        ({"usd": "many"}, 400, None, "expected a number above 0"),
        ({"usd": "1e30"}, 400, None, "expected a number above 0"),
        ({"replaces": {"usd": "900"}}, 409, "usd", "it was changed meanwhile, the limit in force is"),
        ({"replaces": {"usd": "many"}}, 400, None, "replaces: usd"),
        ({"replaces": {}}, 400, "replaces", "expected the limits in force"),
        ({"replaces": "1000"}, 400, "replaces", "expected the limits in force"),
        ({"replaces": {"usd": "1000", "team": "v"}}, 400, "replaces", "expected the limits in force"),
        ({"gpu_hours": 50}, 400, "gpu_hours", "replaces does not name it"),
        ({"usd": None}, 400, "usd", "expected at least one of usd, gpu_hours, wall_clock_hours"),
        ({"team": "nlp"}, 400, "team", "what raises a budget has"),
        ({"webhook": "https://elsewhere.example"}, 400, "webhook", "what raises a budget has"),
        ({"name": "gone"}, 404, "name", "no record of a budget"),
        ({"name": ["x"]}, 404, "name", "no record of a budget"),
        ({"name": None}, 404, "name", "no record of a budget"),
    ],
)
def test_what_raises_nothing_is_refused_and_writes_nothing(
    changes: dict[str, Any], status: int, field: str | None, said: str
) -> None:
    got, found, log = asked({**RAISE, **changes})
    assert (got, found["error"].get("field")) == (status, field), found
    assert said in found["error"]["message"]
    assert not log.records


def test_a_limit_that_it_does_not_have_cannot_be_raised() -> None:
    status, found, _ = asked(
        {**RAISE, "replaces": {"wall_clock_hours": 5}, "usd": None, "wall_clock_hours": 9}
    )
    assert status == 409, found


def test_a_process_that_has_read_no_controls_says_so() -> None:
    status, found, _ = asked(RAISE, None)
    assert (status, found["error"]["code"]) == (404, "no_such_budget")
