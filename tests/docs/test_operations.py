"""docs/operations.md against the code it speaks of: rules, outcomes, paths, controls, the receiver's few lines.

Must not be satisfied by half: what the page has and the code lacks fails as well as the other way round.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from aiohttp import web

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.cli.publish import outgoing
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.dimensions import MATCHED, AlertDimensions
from streams.engine.alerts.meter_rules import METER_RULES
from streams.engine.alerts.rules import BURN_RULES, NAMES, SEVERITIES
from streams.engine.alerts.rules import PAGE as PAGE_SEVERITY
from streams.notify.body import webhook_body
from streams.notify.history import FINAL, FINAL_FOR_ALL
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.retry import SCHEDULE_MS
from streams.notify.webhooks.sender import SendVerdict
from streams.notify.webhooks.signing import Signer
from streams.selfcheck.audit import verdict
from streams.selfcheck.canary.judge import Outcome as CanaryOutcome
from streams.topics import Topic
from streams.web.routes import Routes
from tests.notify.scripted_sender import SECRET, an_alert

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
LATER_MS = 2**42


def _section(title: str) -> str:
    found = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def _rows(text: str) -> list[list[str]]:
    """The cells of all tables in the text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _block(text: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def _span(ms: int) -> str:
    return f"{ms // 3_600_000} h" if ms % 3_600_000 == 0 else f"{ms // 60_000} min"


# -- the meter about itself ------------------------------------------------------------------------------------


def test_the_rules_about_the_meter_itself_are_all_told() -> None:
    rows = _rows(_section("The meter about itself"))
    assert [(row[0].strip("`"), row[1]) for row in rows] == [(rule, PAGE_SEVERITY) for rule in METER_RULES]


def test_the_outcomes_of_a_canary_are_all_told() -> None:
    assert {row[0].strip("`") for row in _rows(_section("Canary"))} == set(get_args(CanaryOutcome))


# -- audit ---------------------------------------------------------------------------------------------------


def test_the_checks_of_an_audit_are_all_told() -> None:
    checks = {
        name: value for name, value in vars(verdict).items() if name.isupper() and isinstance(value, str)
    }
    del checks["RECOUNT"]  # what to do, not a check
    assert [row[0].strip("`") for row in _rows(_section("Audit"))] == list(checks.values())


# -- rules and controls --------------------------------------------------------------------------------------


def test_the_table_of_rules_is_what_is_judged() -> None:
    told = [row[:5] for row in _rows(_section("Alerts"))]
    judged = [
        [
            f"`{rule.name}`",
            rule.severity,
            f"{_span(rule.long_ms)}: {rule.long_ratio:g}",
            f"{_span(rule.short_ms)}: {rule.short_ratio:g}",
            f"{rule.clear_ratio:g}",
        ]
        for rule in BURN_RULES
    ]
    assert told[: len(judged)] == judged
    others = [(row[0].strip("`"), row[1]) for row in told[len(judged) :]]
    assert others == list(zip(NAMES, SEVERITIES, strict=True))[len(judged) :]


def _controls(tmp_path: Path) -> list[ControlEvent]:
    """The page's lines, as `trainfare publish` sends them and a worker reads them."""
    file = tmp_path / "controls.jsonl"
    file.write_text(_block(_section("Alerts"), "json"))
    events = []
    for each in outgoing(file, "trainfare."):
        assert each.topic is Topic.CONTROLS
        event = decode("controls", each.value, [], LATER_MS)
        assert isinstance(event, ControlEvent)
        assert each.key == f"{event.kind}/{event.name}".encode()
        events.append(event)
    return events


def test_the_controls_on_the_page_are_understood(tmp_path: Path) -> None:
    events = _controls(tmp_path)
    controls = Controls.from_events(events)
    assert controls.faults == ()
    assert [kind for kind, _ in controls.address_of("ada")] == ["webhook"]
    assert [kind for kind, _ in controls.address_of("grace")] == ["slack"]
    from_ms = int(str(events[2].value["from_ms"]))
    job = AlertDimensions("run-7", owner="ada", team="vision")
    assert controls.silenced(job, "burn_sustained", "page", from_ms)
    assert not controls.silenced(job, "burn_fast", "page", from_ms)
    assert [rate for _, _, rate in controls.planned_for(AlertDimensions("run-8"))] == [440_330_000_000]


def test_the_match_fields_are_all_named() -> None:
    bullet = _section("Alerts").partition("- **Match fields**")[2].partition("\n- ")[0]
    assert {*MATCHED, "rule", "severity"} == set(re.findall(r"`([a-z_]+)`", bullet))


# -- webhooks ------------------------------------------------------------------------------------------------


def test_the_outcomes_are_those_of_the_notifier() -> None:
    told = {row[0].strip("`"): row[2] for row in _rows(_section("Webhooks"))}
    final = FINAL | FINAL_FOR_ALL
    assert told == dict.fromkeys(final, "no") | {"retrying": "yes"}
    assert set(get_args(SendVerdict)) - {"retry"} <= set(told)


def test_the_waits_are_those_of_the_schedule() -> None:
    said = re.search(r"before attempts 2 to 8 are up to ([\w ,]+?), drawn", re.sub(r"\s+", " ", PAGE))
    assert said is not None
    waits = re.findall(r"(\d+) (s|min)", said[1])
    assert [int(size) * (1_000 if unit == "s" else 60_000) for size, unit in waits] == list(SCHEDULE_MS[1:])
    assert NotifierOptions().max_attempts == len(SCHEDULE_MS)


def test_the_bounds_are_those_of_the_notifier() -> None:
    options = NotifierOptions()
    said = re.sub(r"\s+", " ", PAGE)
    assert f"At most {options.flying_per_receiver} attempts are under way at one receiver" in said
    assert f", {options.flying_at_most} in all." in said
    assert f"all such receivers together {options.flying_at_most // 8};" in said
    assert f"what is no page that fires has {options.flying_at_most * 3 // 8}." in said


@pytest.fixture(scope="module")
def receiver() -> Any:
    """The function on the page."""
    names: dict[str, Any] = {}
    exec(_block(_section("Webhooks"), "python"), names)
    return names["message"]


def _signed(now_ms: int) -> tuple[Mapping[str, str], bytes]:
    body = webhook_body(an_alert())
    return Signer(SECRET).headers("msg_1", body, now_ms), body


def test_the_receiver_on_the_page_takes_our_messages(receiver: Any) -> None:
    headers, body = _signed(int(datetime.now(UTC).timestamp() * 1_000))
    assert receiver(SECRET, headers, body)["data"]["rule"] == "burn_fast"


@pytest.mark.parametrize("spoilt", ["body", "signature", "old"])
def test_the_receiver_on_the_page_takes_no_others(receiver: Any, spoilt: str) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1_000)
    headers, body = _signed(now_ms - 301_000 if spoilt == "old" else now_ms)
    if spoilt == "body":
        body = body.replace(b"page", b"pAge")
    if spoilt == "signature":
        headers = {**headers, "webhook-signature": "v1,bm90IG91cnM="}
    assert receiver(SECRET, headers, body) is None


def test_the_message_on_the_page_has_the_fields_of_ours() -> None:
    shown, ours = json.loads(_block(_section("Webhooks"), "json")), json.loads(webhook_body(an_alert()))
    assert list(shown) == list(ours)
    assert list(shown["data"]) == list(ours["data"])
    assert {type(value) for value in shown["data"].values()} >= {str, float, int, dict, type(None)}


# -- API -----------------------------------------------------------------------------------------------------


def test_the_paths_are_those_that_are_served() -> None:
    app = web.Application()
    Routes(None).add_to(app)  # type: ignore[arg-type]  # nothing is asked, only the paths are looked at
    served = {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    told = {row[0].strip("`") for row in _rows(_section("Page and API"))}
    assert served - told == {"GET /static/{path}"}
    assert told - served == set()
