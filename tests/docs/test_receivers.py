"""docs/receivers.md against the code it speaks of: owners, messages, outcomes, the receiver's few lines.

What the page has and the code lacks fails as well as the other way round.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest

from streams.engine.alerts.alert import Alert, alert_id
from streams.engine.alerts.controls import Controls
from streams.notify.channels import email, slack
from streams.notify.channels.webhook import webhook_body
from streams.notify.groups import MUTED_LOOK_MS, PAGE_INTERVAL_MS
from streams.notify.history import FINAL, FINAL_FOR_ALL, USUAL, WAITING
from streams.notify.options import NotifierOptions
from streams.notify.retry_schedule import SCHEDULE_MS
from streams.notify.webhooks.sender import SendVerdict
from streams.notify.webhooks.signing import Signer
from tests.docs.sections import DOCS, block, published, rows, section, span
from tests.notify.scripted_sender import SECRET, an_alert

PAGE = (DOCS / "receivers.md").read_text()


def test_the_owners_on_the_page_are_understood(tmp_path: Path) -> None:
    controls = Controls.from_events(published(section(PAGE, "Owners"), tmp_path))
    assert controls.faults == ()
    assert [kind for kind, _ in controls.address_of("ada")] == ["webhook"]
    assert [kind for kind, _ in controls.address_of("grace")] == ["slack"]


def test_the_outcomes_are_those_of_the_notifier() -> None:
    told = {row[0].strip("`"): row[2] for row in rows(section(PAGE, "Attempts and outcomes"))}
    final = FINAL | FINAL_FOR_ALL
    assert told == dict.fromkeys(final, "no") | {
        "retrying": "yes",
        "inhibited": "once that is over",
        USUAL: "once it is beyond that",
        WAITING: "once that is over",
    }
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
    assert f"`alerts.group_interval_ms` ({span(options.group_interval_ms)})" in said
    assert f"`alerts.repeat_interval_ms` ({span(options.repeat_interval_ms)})" in said
    assert f"`alerts.alertmanager_resend_ms` ({span(options.alertmanager_resend_ms)})" in said
    assert PAGE_INTERVAL_MS == 60_000
    assert MUTED_LOOK_MS == 30_000
    assert f"A message shows {slack.SHOWN_AT_MOST} alerts (e-mail: {email.SHOWN_AT_MOST})" in said


def test_the_bounds_are_those_of_the_notifier() -> None:
    options = NotifierOptions()
    said = re.sub(r"\s+", " ", (DOCS / "webhooks.md").read_text())
    assert f"At most {options.in_flight_per_receiver} attempts are in progress per receiver" in said
    assert f", {options.in_flight_at_most} in total." in said
    assert f"At most {options.starts_per_s} start in a second" in said
    assert f"and all such receivers together {options.in_flight_at_most // 8};" in said
    assert f"messages other than firing pages get {options.in_flight_at_most * 3 // 8}." in said


@pytest.fixture(scope="module")
def receiver() -> Any:
    """The function on the page."""
    names: dict[str, Any] = {}
    exec(block(section((DOCS / "webhooks.md").read_text(), "Webhooks"), "python"), names)
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
    shown = json.loads(block(section((DOCS / "webhooks.md").read_text(), "Webhooks"), "json"))
    assert json.loads(webhook_body(_alert_of(shown))) == shown
    assert list(shown["data"]) == list(json.loads(webhook_body(an_alert()))["data"]), "in this order"


def test_another_message_would_show() -> None:
    shown = json.loads(block(section((DOCS / "webhooks.md").read_text(), "Webhooks"), "json"))
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
    told = [
        row[0].strip("`")
        for row in rows(section((DOCS / "webhooks.md").read_text(), "Webhooks").partition("```json")[0])
    ]
    assert told == ["content-type", *Signer(SECRET).headers("msg_1", b"{}", 0)]
