"""Signed links: what they offer, for how long, and that nothing of them can be changed."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from schemas.units import NANO_PER_USD
from streams.engine.alerts.alert import Alert
from streams.engine.rules.registry import ALL
from streams.notify.act_links import ACTS, LASTS_MS, ActLinks, InvalidLinkError, LinkEndedError, offer_of
from streams.notify.channels.slack import URL_AT_MOST
from streams.notify.links import Links
from streams.web.control_record import control_record
from tests.notify.scripted_sender import NOW_MS, an_alert, resolved

KEY = "k" * 32
LINKS = ActLinks(KEY)
UNTIL_MS = NOW_MS + 3_600_000


def token_of(links: ActLinks, alert: Alert) -> str:
    return links.token(offer_of(alert))


def about(token: str) -> dict[str, object]:
    payload = token.partition(".")[0]
    found: dict[str, object] = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


def test_a_link_offers_what_its_alert_allows_until_it_ends() -> None:
    alert = an_alert()
    offer = LINKS.opened(token_of(LINKS, alert), NOW_MS)
    assert (offer.alert, offer.rule, offer.kind, offer.name) == (alert.alert_id, alert.rule, "job", "job-1")
    assert offer.acts == ACTS
    last_ms = alert.changed_ms + LASTS_MS - 1
    assert LINKS.opened(token_of(LINKS, alert), last_ms) == offer
    with pytest.raises(LinkEndedError, match="has ended"):
        LINKS.opened(token_of(LINKS, alert), last_ms + 1)


def test_only_rules_that_a_plan_quiets_can_be_planned() -> None:
    assert LINKS.opened(token_of(LINKS, an_alert(rule="unpriced")), NOW_MS).acts == ("ack", "silence")
    team = an_alert(subject_kind="team", subject_name="vision")
    assert LINKS.opened(token_of(LINKS, team), NOW_MS).acts == ("ack", "silence")


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_a_control_record(act: str) -> None:
    alert = an_alert()
    record = LINKS.opened(token_of(LINKS, alert), NOW_MS).record(act, UNTIL_MS, "on it")
    expected: dict[str, dict[str, object]] = {
        "ack": {"kind": "ack", "alert_id": alert.alert_id},
        "silence": {"kind": "silence", "job_id": "job-1", "rule": alert.rule},
        "planned": {
            "kind": "planned",
            "job_id": "job-1",
            "from_ms": alert.started_ms - alert.window_ms,
            "usd_per_hour": str(alert.usd_nano_per_hour / NANO_PER_USD).removesuffix(".0"),
        },
    }
    assert record == {**expected[act], "until_ms": UNTIL_MS, "comment": "on it"}


@pytest.mark.parametrize(
    ("alert", "match"),
    [
        (an_alert(subject_kind="team", subject_name="vision", rule="team_ceiling"), {"team": "vision"}),
        (
            an_alert(subject_kind="traffic", subject_name="x", rule="budget_used"),
            {"owner": "ada", "team": "vision", "project": "p"},
        ),
    ],
)
def test_a_silence_covers_the_subject_or_whose_it_is(alert: Alert, match: dict[str, str]) -> None:
    record = LINKS.opened(token_of(LINKS, alert), NOW_MS).record("silence", UNTIL_MS, "")
    assert record == {"kind": "silence", **match, "rule": alert.rule, "until_ms": UNTIL_MS}


@pytest.mark.parametrize("rule", [rule.name for rule in ALL])
@pytest.mark.parametrize("kind", ["job", "team", "node", "fleet"])
def test_every_act_that_a_link_offers_is_a_record_with_an_effect(rule: str, kind: str) -> None:
    """A silence of nothing but a rule would cover alerts of others: no link is one."""
    offer = offer_of(an_alert(rule=rule, subject_kind=kind, subject_name="x"))
    for act in offer.acts:
        record = offer.record(act, UNTIL_MS, "")
        assert control_record(record, "signed link", NOW_MS).kind == act
        if act == "silence":
            assert len(record.keys() - {"kind", "rule", "until_ms"}) > 0
    found = Links("https://fare.example.com", signed=LINKS).of(
        an_alert(rule=rule, subject_kind=kind, subject_name="x")
    )
    assert found is not None
    assert bool(found.silence) == ("silence" in offer.acts)


def test_an_acknowledged_ceiling_is_lifted_to_what_was_seen() -> None:
    record = LINKS.opened(token_of(LINKS, an_alert(rule="ceiling")), NOW_MS).record("ack", UNTIL_MS, "")
    assert (record["job_id"], "usd_per_hour" in record) == ("job-1", True)


def test_what_traffic_costs_is_planned_beside_the_rest() -> None:
    alert = an_alert(rule="traffic", usd_nano_per_hour=2 * NANO_PER_USD, expected_nano_per_hour=NANO_PER_USD)
    assert LINKS.opened(token_of(LINKS, alert), NOW_MS).usd == "3"


def changed(token: str, **fields: object) -> str:
    payload = urlsafe_b64encode(json.dumps({**about(token), **fields}).encode()).rstrip(b"=").decode()
    return f"{payload}.{token.partition('.')[2]}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "a.b",
        "\u00fc.\u00fc",
        "=" * 4_096,
        token_of(LINKS, an_alert())[:-1],
        token_of(LINKS, an_alert()).partition(".")[0],
        changed(token_of(LINKS, an_alert()), name="job-2"),
        changed(token_of(LINKS, an_alert()), ends_ms=2**53),
        changed(token_of(LINKS, an_alert()), usd="999999"),
        token_of(ActLinks("K" * 32), an_alert()),
    ],
)
def test_what_was_not_signed_with_the_key_is_refused(token: str) -> None:
    with pytest.raises(InvalidLinkError, match="no link of this worker"):
        LINKS.opened(token, NOW_MS)


def test_the_key_signs_links_alone() -> None:
    """A MAC of other data with the same key, as of a webhook, opens nothing."""
    import hmac

    payload = token_of(LINKS, an_alert()).partition(".")[0]
    other = urlsafe_b64encode(hmac.digest(KEY.encode(), payload.encode(), "sha256")).rstrip(b"=").decode()
    with pytest.raises(InvalidLinkError):
        LINKS.opened(f"{payload}.{other}", NOW_MS)


def test_messages_have_signed_links_behind_the_hash() -> None:
    links = Links("https://fare.example.com/meter", signed=LINKS)
    found = links.of(an_alert())
    assert found is not None
    for act, url in (("ack", found.acknowledge), ("silence", found.silence), ("planned", found.planned)):
        head, _, token = str(url).partition("=")
        assert head == f"https://fare.example.com/meter/act#{act}"
        assert LINKS.opened(token, NOW_MS).alert == an_alert().alert_id
    assert "act#" not in str(found.subject)
    ended = links.of(resolved())
    assert ended is not None
    assert not [url for url in (ended.acknowledge, ended.silence, ended.planned) if url]


def test_the_longest_names_fit_a_button_of_slack() -> None:
    name = "\U0001f680" * 64  # 256 bytes
    found = Links("https://fare.example.com", signed=LINKS).of(
        an_alert(name, owner=name, team=name, project=name)
    )
    assert found is not None
    assert len(str(found.planned)) <= URL_AT_MOST
