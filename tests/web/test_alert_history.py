"""The history of alerts over HTTP: filters, pages, incidents as one row, one alert with why it fires, and the course of its rule."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from schemas.control_table import CONTROLS
from schemas.tables import ALERTS, DELIVERIES
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from streams.explain.alert_list import MESSAGES
from streams.explain.why.judged import judged
from tests.sinks.rows import rows
from tests.web.live import alert, at, delivery, put
from tests.web.log import AS_OF_MS, T0_MS
from tests.web.serving import Client, served

MINUTE_MS = 60_000
BURNS_MS = T0_MS + 300_000
_versions = itertools.count(1)
SWEEP = '["sweep","burn_fast","speech","lr"]'
PRICE = '["price","h100"]'
#: One alert for each thing that can become of a message, by what the API calls it.
FATES: dict[str, tuple[list[str], dict[str, Any]]] = {
    "sent": (["retrying", "delivered"], {}),
    "waiting": (["retrying"], {}),
    "failed": (["retrying", "failed"], {}),
    "nobody": (["no_receiver"], {}),
    "silenced": ([], {"silenced": True}),
    "inhibited": (["inhibited"], {"severity": "ticket"}),
    "incident": (["in_incident"], {}),
    "digest": ([], {"severity": "digest"}),
    "usual": (["usual"], {}),
    "superseded": (["superseded"], {}),
    "none": ([], {"status": "resolved", "resolved": at(T0_MS + 500_000)}),
}


def get(store: ClickHouseStore, path: str, status: int = 200, **options: Any) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(path, status)

    return served(store, work, **options)


def asked(store: ClickHouseStore, code: int = 200, **given: Any) -> Any:
    return get(store, f"/api/v1/alerts?{urlencode(given)}", code)


def ids(answer: dict[str, Any]) -> list[str]:
    return [each["alert_id"] for each in answer["alerts"]]


def minutes(count: float) -> Any:
    return at(T0_MS + round(count * MINUTE_MS))


@pytest.fixture(scope="module")
def history(store: ClickHouseStore) -> Any:
    """Alerts of every fate, an incident with four alerts of three jobs, and a price that tells of one."""
    for table in (ALERTS, DELIVERIES):
        store.delete(table, [Condition("version", ">=", 0)])
    fates = [
        alert(
            f"al_{name}",
            subject_name=f"job-{name}",
            started=minutes(number),
            changed=minutes(number),
            **changes,
        )
        for number, (name, (_, changes)) in enumerate(FATES.items())
    ]
    member: dict[str, Any] = {"shared_cause": SWEEP, "team": "language", "opened_usd_per_hour": Decimal(10)}
    sweep = [
        alert("al_m1", subject_name="lr-1", started=minutes(19), changed=minutes(19), **member),
        alert("al_m2", subject_name="lr-2", started=minutes(20), changed=minutes(40), status="resolved", resolved=minutes(40), **member),
        alert("al_m3", subject_name="lr-3", started=minutes(25), changed=minutes(25), owner="eve", **member),
        alert("al_m4", subject_name="lr-3", rule="burn_sustained", started=minutes(26), changed=minutes(26), **member),
        # Long before the incident, and after it was over: of the same cause, and none of its members.
        alert("al_past", subject_name="lr-0", started=minutes(10), changed=minutes(10), **member),
        alert("al_after", subject_name="lr-9", started=minutes(60), changed=minutes(60), **member),
        alert("al_sweep", rule="incident", subject_kind="sweep", subject_name="speech/lr", started=minutes(21), resolved=minutes(55), status="resolved", changed=minutes(55), shared_cause=SWEEP),
        alert("al_price", rule="price_jump", subject_kind="sku", subject_name="h100", started=minutes(30), changed=minutes(30), shared_cause=PRICE),
        alert("al_paid", subject_name="b", started=minutes(31), changed=minutes(31), shared_cause=PRICE),
    ]  # fmt: skip
    put(store, ALERTS, [*fates, *sweep], "the history")
    tries = [
        delivery(f"al_{name}", attempt + 1, outcome)
        for name, (outcomes, _) in FATES.items()
        for attempt, outcome in enumerate(outcomes)
    ]
    put(store, DELIVERIES, tries, "its messages")
    return store


@pytest.fixture
def burns(store: ClickHouseStore) -> Any:
    """An alert of a job that the store has the state of."""
    row = alert(
        "al_b0b0b0b0b0b0b0b0b0b0b0b0",
        started=at(BURNS_MS),
        changed=at(BURNS_MS),
        version=next(_versions),
    )
    put(store, ALERTS, [row], f"of a job that is known, {row['version']}")
    yield row
    store.delete(ALERTS, [Condition("alert_id", "=", row["alert_id"])])


def test_the_newest_come_first_and_pages_have_all_of_them_once(history: ClickHouseStore) -> None:
    whole = asked(history, order="started")
    assert (whole["count"], whole["count_alerts"], whole["before"]) == (20, 20, None)
    assert ids(whole)[:3] == ["al_after", "al_paid", "al_price"]
    found, before, pages = [], "", 0
    while before is not None:
        page = asked(history, order="started", limit=7, before=before)
        found += ids(page)
        before, pages = page["before"], pages + 1
        assert page["count"] == 20
    assert (found, pages) == (ids(whole), 3)


def test_without_parameters_what_changed_last_comes_first_as_ever(history: ClickHouseStore) -> None:
    answer = get(history, "/api/v1/alerts?limit=3")
    assert ids(answer) == ["al_after", "al_sweep", "al_m2"]
    assert ids(asked(history, status="firing", limit=1)) == ["al_after"]


@pytest.mark.parametrize("message", [*FATES])
def test_each_fate_of_a_message_is_named_and_can_be_asked_for(history: ClickHouseStore, message: str) -> None:
    found = asked(history, message=message, subject="job-*")
    assert ids(found) == [f"al_{message}"]
    assert found["alerts"][0]["message"] == message
    everything = {each["alert_id"]: each["message"] for each in asked(history, limit=100)["alerts"]}
    assert {each for each, fate in everything.items() if fate == message} == set(
        ids(asked(history, message=message))
    )


def test_every_fate_has_an_example_here() -> None:
    assert {*FATES, "planned"} == set(MESSAGES)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"status": "resolved"}, {"al_none", "al_m2", "al_sweep"}),
        ({"severity": "digest"}, {"al_digest"}),
        ({"rule": "price_jump"}, {"al_price"}),
        ({"owner": "eve"}, {"al_m3"}),
        ({"team": "language", "rule": "burn_sustained"}, {"al_m4"}),
        ({"kind": "sku"}, {"al_price"}),
        ({"subject": "lr-3"}, {"al_m3", "al_m4"}),
        ({"subject": "lr-9*"}, {"al_after"}),
        ({"text": "JUMP h100"}, {"al_price"}),
        ({"text": "Incident"}, {"al_incident", "al_sweep"}),
        ({"text": "%' OR 1=1 --"}, set()),
        ({"from_ms": T0_MS + 56 * MINUTE_MS, "status": "resolved"}, set()),
        ({"from_ms": T0_MS + 41 * MINUTE_MS, "to_ms": T0_MS + 56 * MINUTE_MS, "status": "resolved"}, {"al_sweep"}),
        ({"to_ms": T0_MS + 1}, {"al_sent"}),
        ({"part_of": "al_sweep"}, {"al_m1", "al_m2", "al_m3", "al_m4"}),
        ({"part_of": "al_price"}, {"al_paid"}),
        ({"part_of": "al_m1"}, set()),
    ],
)  # fmt: skip
def test_filters(history: ClickHouseStore, given: dict[str, Any], expected: set[str]) -> None:
    found = asked(history, limit=100, **given)
    assert set(ids(found)) == expected
    assert found["count"] == len(expected)


def test_an_incident_is_one_row_with_its_jobs_inside(history: ClickHouseStore) -> None:
    found = asked(history, folded=1, order="started", limit=100)
    assert (found["count"], found["count_alerts"]) == (15, 20)
    assert not {f"al_m{number}" for number in (1, 2, 3, 4)} & set(ids(found))
    assert {"al_past", "al_after"} <= set(ids(found))
    incident = next(each for each in found["alerts"] if each["alert_id"] == "al_sweep")
    # Four alerts of three jobs, each of which paid $10 an hour.
    assert incident["members"] == {"alerts": 4, "jobs": 3, "firing": 3, "usd_per_hour": "30.000000000", "matched": 5}  # fmt: skip
    assert all(each["members"] is None for each in found["alerts"] if each["shared_cause"] == "")


def test_a_filter_that_one_of_its_jobs_meets_finds_the_incident(history: ClickHouseStore) -> None:
    found = asked(history, folded=1, owner="eve", order="started")
    assert ids(found) == ["al_sweep"]
    assert found["alerts"][0]["members"]["matched"] == 1


def test_pages_of_folded_rows(history: ClickHouseStore) -> None:
    whole = ids(asked(history, folded=1, order="started", limit=100))
    first = asked(history, folded=1, order="started", limit=4)
    second = asked(history, folded=1, order="started", limit=100, before=first["before"])
    assert ids(first) + ids(second) == whole


def test_what_is_planned_can_be_asked_for(history: ClickHouseStore) -> None:
    said = {
        "time": minutes(1),
        "kind": "planned",
        "source": "t",
        "planned_usd_per_hour": Decimal(40),
        "version": 1,
    }
    given = (
        {**said, "offset": 901, "name": "one", "match": [("job_id", "job-sent")], "until": minutes(100)},
        {**said, "offset": 902, "name": "before", "match": [("job_id", "job-usual")], "until": minutes(2)},
        {**said, "offset": 903, "name": "gone", "match": [("job_id", "job-digest")]},
        {**said, "offset": 904, "name": "gone", "removed": True},
        {**said, "offset": 905, "name": "of a place", "match": [("region", "eu-1"), ("owner", "bob")], "begins": minutes(30)},
    )  # fmt: skip
    history.insert(CONTROLS, rows(CONTROLS, *given), "plans")
    try:
        assert set(ids(asked(history, message="planned", limit=100))) == {"al_sent", "al_paid"}
    finally:
        history.delete(CONTROLS, [Condition("offset", ">=", 900)])


def test_the_names_to_choose_from(history: ClickHouseStore) -> None:
    names = asked(history, names=1)["names"]
    assert names["rules"] == ["burn_fast", "burn_sustained", "incident", "price_jump"]
    assert (names["owners"], names["teams"]) == (["bob", "eve"], ["language", "speech"])
    assert "names" not in asked(history)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"message": "maybe"}, "message: got 'maybe', expected one of sent, waiting, failed"),
        ({"severity": "high"}, "severity: got 'high'"),
        ({"order": "rule"}, "order: got 'rule'"),
        ({"before": "yesterday"}, "before: got 'yesterday', expected `before` of the answer"),
        ({"from_ms": "-1"}, "from_ms: got '-1', expected milliseconds"),
        ({"folded": "yes"}, "folded: got 'yes', expected 0 or 1"),
        ({"text": "x" * 600}, "text: over 512 bytes"),
        ({"limit": "1001"}, "limit: got '1001'"),
        ({"since": "2d"}, "parameter 'since' is unknown"),
    ],
)
def test_what_is_wrong_is_named(store: ClickHouseStore, given: dict[str, Any], message: str) -> None:
    assert asked(store, 400, **given)["error"]["message"].startswith(message)


def test_one_alert_with_its_rule_messages_and_cause(history: ClickHouseStore) -> None:
    found = get(history, "/api/v1/alerts/al_m3")
    assert (found["alert"]["alert_id"], found["alert"]["firings"], found["alert"]["message"]) == (
        "al_m3",
        1,
        "waiting",
    )
    assert found["alert"]["opened_usd_per_hour"] == "10.000000000"
    assert found["part_of"]["alert_id"] == "al_sweep"
    assert found["rule"] == found["rule"] | {
        "name": "burn_fast",
        "title": "Runaway burn",
        "runbook_url": None,
    }
    assert found["rule"]["runbook"] == "docs/runbook.md#spend-spike"
    assert (found["may_act"], "TRAINFARE_WEB_WRITE_TOKEN" in found["acts_need"]) == (False, True)
    incident = get(history, "/api/v1/alerts/al_sweep", docs_url="https://docs.example.com")
    assert (incident["part_of"], incident["alert"]["members"]["alerts"]) == (None, 4)
    assert incident["rule"]["runbook_url"].startswith("https://docs.example.com/")
    sent = get(history, "/api/v1/alerts/al_sent")
    assert [each["outcome"] for each in sent["alert"]["deliveries"]] == ["retrying", "delivered"]


@pytest.mark.parametrize(
    "path", ["al_nothing", "al_nothing/why", "al_nothing/margins", quote("{{7*7}}", safe="")]
)
def test_an_alert_that_does_not_exist(store: ClickHouseStore, path: str) -> None:
    assert "not in this store" in get(store, f"/api/v1/alerts/{path}", 404)["error"]["message"]


def test_controls_that_were_for_it_while_it_fired(history: ClickHouseStore) -> None:
    said = {"time": minutes(0), "source": "t", "by": "web.write_token", "version": 1}
    given = (
        {**said, "offset": 901, "kind": "ack", "name": "al_sent", "alert_id": "al_sent", "until": minutes(30)},
        {**said, "offset": 902, "kind": "silence", "name": "s", "match": [("job_id", "job-sent"), ("rule", "burn_fast")], "comment": "known"},
        {**said, "offset": 903, "kind": "silence", "name": "other", "match": [("job_id", "job-usual")]},
        {**said, "offset": 904, "kind": "silence", "name": "past", "match": [("team", "speech")], "until": at(T0_MS - 3_600_000)},
    )  # fmt: skip
    history.insert(CONTROLS, rows(CONTROLS, *given), "acts")
    try:
        controls = get(history, "/api/v1/alerts/al_sent", wall_ms=T0_MS + 40 * MINUTE_MS)["controls"]
        assert [(each["kind"], each["name"], each["state"]) for each in controls] == [
            ("silence", "s", "in_force"),
            ("ack", "al_sent", "over"),
        ]
        assert controls[0]["comment"] == "known"
    finally:
        history.delete(CONTROLS, [Condition("offset", ">=", 900)])


def test_the_course_of_a_rule_is_what_its_judge_says_at_each_instant(
    store: ClickHouseStore, burns: dict[str, Any]
) -> None:
    found = get(store, f"/api/v1/alerts/{burns['alert_id']}/margins")
    assert (found["rule"], found["missing"]) == ("burn_fast", "")
    assert found["conditions"]
    instants = [point[0] for point in found["conditions"][0]["points"]]
    assert instants == sorted(instants)
    assert BURNS_MS in instants
    assert len(instants) > 10
    # Asked for one by one, latest first or not, the judge says the same.
    for at_ms in instants[::7]:
        alone = [each for each in judged(store, "b", at_ms).rules if each.rule == "burn_fast"]
        together = [next((p for p in each["points"] if p[0] == at_ms), None) for each in found["conditions"]]
        assert [[at_ms, each.value, each.threshold, each.share, each.holds] for each in alone] == together


def test_a_rule_about_no_job_has_no_course(history: ClickHouseStore) -> None:
    found = get(history, "/api/v1/alerts/al_price/margins")
    assert (found["missing"], found["conditions"]) == ("not_of_a_job", [])


def test_why_is_what_the_command_says(store: ClickHouseStore, burns: dict[str, Any]) -> None:
    path = f"/api/v1/alerts/{burns['alert_id']}/why"
    found = get(store, path)
    assert (found["rule"], found["at_ms"]) == ("burn_fast", BURNS_MS)
    assert {"burn_fast", "idle_gpus"} <= {each["rule"] for each in found["rules"]}
    assert found["messages"][0] == found["messages"][0] | {
        "alert_id": burns["alert_id"],
        "message": "not sent so far",
    }
    later = get(store, f"{path}?at_ms={AS_OF_MS}")
    assert later["at_ms"] == AS_OF_MS
    assert json.dumps(later["rules"]) != json.dumps(found["rules"])
    assert "at_ms" in get(store, f"{path}?at_ms=now", 400)["error"]["message"]
