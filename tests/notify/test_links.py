"""Links of messages: where they lead, and that they are absent where nothing is configured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from msgspec import UNSET

from streams.engine.rules.registry import LEDGER_RULES, NAMES
from streams.notify.channels.webhook import webhook_body
from streams.notify.links import RULES_PAGE, RUNBOOKS, Links
from tests.notify.notices import a_receipt
from tests.notify.scripted_sender import NOW_MS, an_alert, resolved
from tests.schemas.messages.test_json_schema import check

DOCS = Path(__file__).resolve().parents[2] / "docs"
LINKS = Links("https://fare.example.com/meter", "https://docs.example.com")


def test_nothing_configured_is_no_link() -> None:
    assert Links().of(an_alert()) is None
    assert "links" not in json.loads(webhook_body(an_alert()))["data"]
    only_docs = Links(docs_url="https://docs.example.com").of(an_alert())
    assert only_docs is not None
    assert (only_docs.subject, only_docs.silence, only_docs.planned) == (UNSET, UNSET, UNSET)


def test_a_webhook_has_them_as_well() -> None:
    message = check(webhook_body(an_alert(), LINKS))
    assert message["data"]["links"] == {
        "subject": f"https://fare.example.com/meter/?at={NOW_MS}#/job/job-1",
        "runbook": "https://docs.example.com/runbook.md#spend-spike",
        "acknowledge": f"https://fare.example.com/meter/?ack={an_alert().alert_id}#/job/job-1",
        "silence": f"https://fare.example.com/meter/?silence={an_alert().alert_id}#/job/job-1",
        "planned": f"https://fare.example.com/meter/?planned={an_alert().alert_id}#/job/job-1",
    }
    assert set(check(webhook_body(resolved(), LINKS))["data"]["links"]) == {"subject", "runbook"}


@pytest.mark.parametrize("name", ["a/b?c#d", '\u00fc \n"><script>', "..", "%2e%2e"])
def test_a_name_cannot_lead_elsewhere(name: str) -> None:
    found = Links("https://fare.example.com").of(an_alert(name))
    assert found is not None
    head, _, quoted = str(found.subject).partition("#/job/")
    assert head == f"https://fare.example.com/?at={NOW_MS}"
    assert unquote(quoted) == name
    assert re.fullmatch(r"[A-Za-z0-9%._~-]+", quoted)


def test_a_lone_surrogate_stops_no_message() -> None:
    check(webhook_body(an_alert("\ud800"), LINKS))


def test_every_runbook_is_there() -> None:
    for target in {*RUNBOOKS.values(), RULES_PAGE}:
        page, _, anchor = target.partition("#")
        titles = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), re.M)
        anchors = {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}
        assert anchor in anchors, target


def test_every_rule_has_one() -> None:
    for rule in (*NAMES, *LEDGER_RULES, "budget_used", "budget_forecast"):
        assert rule in RUNBOOKS
        found = LINKS.of(an_alert(rule=rule))
        assert found is not None
        assert str(found.runbook).startswith("https://docs.example.com/")


def test_a_receipt_leads_to_the_job_at_its_end_and_names_the_command_that_shows_it() -> None:
    receipt = a_receipt(job_id="a/b", links=LINKS)
    data = check(receipt.message)["data"]
    assert data["links"] == {
        "subject": f"https://fare.example.com/meter/?at={NOW_MS}#/job/a%2Fb",
        "runbook": "https://docs.example.com/receipts.md#the-message",
    }
    assert data["command"] == f"trainfare receipts show {receipt.receipt_id}"
    assert "links" not in check(a_receipt().message)["data"]


def test_a_digest_leads_to_the_fleet_at_the_end_of_its_week() -> None:
    found = LINKS.of_receipt("digest.weekly", "team", "vision", NOW_MS)
    assert found is not None
    assert found.subject == f"https://fare.example.com/meter/?at={NOW_MS}#/"
    assert found.runbook == "https://docs.example.com/receipts.md#weekly-digest"
    assert Links().of_receipt("digest.weekly", "team", "vision", NOW_MS) is None


@pytest.mark.parametrize("rule", [*NAMES, *LEDGER_RULES, "budget_used"])
def test_this_is_planned_stands_where_a_planned_rate_quiets_the_rule(rule: str) -> None:
    found = LINKS.of(an_alert(rule=rule))
    assert found is not None
    assert (found.planned is not UNSET) == (
        rule in {"burn_fast", "burn_sustained", "burn_drift", "traffic", "price_basis", "ceiling"}
    )
    of_team = LINKS.of(an_alert(rule=rule, subject_kind="team"))
    assert of_team is not None
    assert of_team.planned is UNSET
