"""docs/alerts.md against the code it speaks of: rules, controls, messages, outcomes, the receiver's few lines.

Must not be satisfied by half: what the page has and the code lacks fails as well as the other way round.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.tables import ALERTS, SCHEMAS
from streams.cli.publish import outgoing
from streams.engine.alerts.alert import Alert, alert_id, webhook_id
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.dimensions import MATCHED, AlertDimensions
from streams.engine.alerts.rules import BURN_RULES, JOB_RULES, NAMES, SEVERITIES
from streams.engine.kernels.judge import DRIFT_SILENT_MS, REOPENS_MS, SUSTAINED_SILENT_MS
from streams.notify import slack
from streams.notify.body import webhook_body
from streams.notify.groups import MUTED_LOOK_MS, PAGE_INTERVAL_MS
from streams.notify.history import FINAL, FINAL_FOR_ALL
from streams.notify.mail import message
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.retry import SCHEDULE_MS
from streams.notify.webhooks.sender import SendVerdict
from streams.notify.webhooks.signing import Signer
from streams.topics import Topic
from tests.notify.scripted_sender import SECRET, an_alert

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "alerts.md").read_text()
LATER_MS = 2**42
OWNERS = "Owners, silences, planned rates"


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


# -- rules and controls --------------------------------------------------------------------------------------


def test_the_table_of_rules_is_what_is_judged() -> None:
    told = [row[:5] for row in _rows(_section("Rules"))]
    judged = [
        [
            f"`{rule.name}`",
            rule.severity,
            f">= {rule.long_ratio:g} over {_span(rule.long_ms)}",
            f">= {rule.short_ratio:g} over {_span(rule.short_ms)}",
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
    file.write_text(_block(_section(OWNERS), "json"))
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
    bullet = _section(OWNERS).partition("- **Match fields**")[2].partition("\n- ")[0]
    assert {*MATCHED, "rule", "severity"} == set(re.findall(r"`([a-z_]+)`", bullet))


# -- webhooks ------------------------------------------------------------------------------------------------


def test_the_outcomes_are_those_of_the_notifier() -> None:
    told = {row[0].strip("`"): row[2] for row in _rows(_section("Webhooks").partition("### Attempts")[2])}
    final = FINAL | FINAL_FOR_ALL
    assert told == dict.fromkeys(final, "no") | {"retrying": "yes", "inhibited": "once that is over"}
    assert set(get_args(SendVerdict)) - {"retry"} <= set(told)


def test_the_waits_are_those_of_the_schedule() -> None:
    said = re.search(r"before attempts 2 to 8 are up to ([\w ,]+?), drawn", re.sub(r"\s+", " ", PAGE))
    assert said is not None
    waits = re.findall(r"(\d+) (s|min)", said[1])
    assert [int(size) * (1_000 if unit == "s" else 60_000) for size, unit in waits] == list(SCHEDULE_MS[1:])
    assert NotifierOptions().max_attempts == len(SCHEDULE_MS)


def test_the_times_of_groups_are_those_of_the_notifier() -> None:
    options, said = NotifierOptions(), re.sub(r"\s+", " ", PAGE)
    assert f"`alerts.group_wait_ms` ({options.group_wait_ms // 1000} s)" in said
    assert f"`alerts.group_interval_ms` ({_span(options.group_interval_ms)})" in said
    assert f"`alerts.repeat_interval_ms` ({_span(options.repeat_interval_ms)})" in said
    assert f"`alerts.alertmanager_resend_ms` ({_span(options.alertmanager_resend_ms)})" in said
    assert PAGE_INTERVAL_MS == 60_000
    assert MUTED_LOOK_MS == 30_000
    assert f"A message shows {slack.SHOWN_AT_MOST} alerts (e-mail: {message.SHOWN_AT_MOST})" in said


def test_the_bounds_are_those_of_the_notifier() -> None:
    options = NotifierOptions()
    said = re.sub(r"\s+", " ", PAGE)
    assert f"At most {options.in_flight_per_receiver} attempts are in progress per receiver" in said
    assert f", {options.in_flight_at_most} in total." in said
    assert f"At most {options.starts_per_s} start in a second" in said
    assert f"and all such receivers together {options.in_flight_at_most // 8};" in said
    assert f"messages other than firing pages get {options.in_flight_at_most * 3 // 8}." in said


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


def test_the_message_on_the_page_is_what_is_sent() -> None:
    shown = json.loads(_block(_section("Webhooks"), "json"))
    assert json.loads(webhook_body(_alert_of(shown))) == shown
    assert list(shown["data"]) == list(json.loads(webhook_body(an_alert()))["data"]), "in this order"


def test_another_message_would_show() -> None:
    shown = json.loads(_block(_section("Webhooks"), "json"))
    alert = _alert_of(shown)
    shown["data"]["budget_usd"] = "0"
    assert json.loads(webhook_body(alert)) != shown


def _alert_of(message: dict[str, Any]) -> Alert:
    data = message["data"]
    subject = data["subject"]
    changed_ms = round(datetime.fromisoformat(message["timestamp"]).timestamp() * 1000)
    return Alert(
        alert_id=alert_id(data["rule"], subject["kind"], subject["name"], data["started_ms"]),
        rule=data["rule"],
        severity=data["severity"],
        status=data["status"],
        subject_kind=subject["kind"],
        subject_name=subject["name"],
        owner=data["owner"],
        team=data["team"],
        project=data["project"],
        started_ms=data["started_ms"],
        resolved_ms=None,
        ratio=data["ratio"],
        usd_nano_per_hour=_nano(data["usd_per_hour"]),
        expected_nano_per_hour=_nano(data["expected_usd_per_hour"]),
        cost_nano=_nano(data["cost_usd"]),
        window_ms=data["window_ms"],
        summary=data["summary"],
        evidence_sql=data["evidence_sql"],
        held_ms=changed_ms,
        changed_ms=changed_ms,
        firings=1,
        silenced=False,
    )


def _nano(usd: str) -> int:
    return int(Decimal(usd) * 10**9)


def test_the_headers_are_those_of_a_signature() -> None:
    told = [row[0].strip("`") for row in _rows(_section("Webhooks").partition("```json")[0])]
    assert told == ["content-type", *Signer(SECRET).headers("msg_1", b"{}", 0)]


def test_ids_are_made_as_told() -> None:
    said = re.sub(r"\s+", " ", _section("Episodes"))
    alert, message = re.findall(r"`([A-Z_]+(?:\|[A-Z_]+)+)`", said)
    values = {"RULE": "unpriced", "SUBJECT_KIND": "job", "SUBJECT_NAME": "j", "STARTED_MS": "5"}
    values |= {"ALERT_ID": "al_1", "STATUS": "firing", "CHANGED_MS": "7"}
    assert "al_" + _digest(alert, values) == alert_id("unpriced", "job", "j", 5)
    assert "msg_" + _digest(message, values) == webhook_id("al_1", "firing", 7)


def _digest(form: str, values: Mapping[str, str]) -> str:
    return hashlib.sha256("|".join(values[name] for name in form.split("|")).encode()).hexdigest()[:24]


def test_the_columns_of_an_alert_are_all_told() -> None:
    told = {name for row in _rows(_section("What is stored")) for name in re.findall(r"`(\w+)`", row[0])}
    assert told == set(SCHEMAS[ALERTS].names) - {"alert_id", "shard", "version"}


def test_the_spans_of_an_episode_are_those_of_the_judge() -> None:
    assert f"within {_span(REOPENS_MS)} of clearing" in PAGE
    assert f"until {_span(DRIFT_SILENT_MS)} after" in PAGE
    assert f"until {_span(SUSTAINED_SILENT_MS)} after it cleared" in PAGE
    assert {rule.thresholds["extra_usd"].default for rule in JOB_RULES[: len(BURN_RULES)]} == {1}
    assert "at least $1,\n" in PAGE
