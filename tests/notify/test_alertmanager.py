"""What Alertmanagers are sent, by a clock that is moved by hand; Debian's own one is in test_alertmanager_real."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest

from schemas.escaping import visible
from streams.clock import ManualClock
from streams.engine.alerts.alert import Address
from streams.notify.channels.alertmanager import alertmanager_body
from streams.notify.channels.channels import CHANNEL_OF, Channels
from streams.notify.delivery import Delivery, Receiver
from streams.notify.firing import FiringAlerts
from streams.notify.links import Links
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.sender import SendResult
from tests.logged import logged
from tests.notify.scripted_sender import (
    BUSY,
    HOOK,
    NOW_MS,
    OK,
    SECRET,
    SHARD,
    Office,
    an_alert,
    resolved,
    run,
)

ONE, TWO = "http://am-1:9093", "http://am-2:9093/prefix"
API = "/api/v2/alerts"
MINUTE_MS = 60_000


def office(script: dict[str, list[SendResult]] | None = None, **options: Any) -> Office:
    return Office(script, addresses=[], options={"alertmanager_urls": (ONE, TWO), **options})


def posted(office: Office, url: str) -> list[list[tuple[str, bool]]]:
    """Of each POST the subjects, and whether they end later than now."""
    now_ms = office.clock.now_ms()
    return [
        [(alert["labels"]["job"], ms(alert["endsAt"]) > now_ms) for alert in sent.body]
        for sent in office.sender.sent
        if sent.url == f"{url}{API}"
    ]


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_labels_annotations_and_times() -> None:
    links = Links("https://fare.example.com", "https://docs.example.com")
    (alert,) = json.loads(alertmanager_body([an_alert(team="")], links, NOW_MS + 5, MINUTE_MS))
    assert alert["labels"] == {
        "alertname": "burn_fast",
        "severity": "page",
        "subject_kind": "job",
        "job": "job-1",
        "owner": "ada",
        "project": "p",
    }
    assert alert["annotations"]["summary"] == "job-1 burns $786.56/h"
    assert alert["annotations"]["runbook"] == "https://docs.example.com/runbook.md#spend-spike"
    of_alert = f"{an_alert().alert_id}#/job/job-1"
    assert alert["annotations"]["silence"].endswith(f"/?silence={of_alert}")
    assert alert["annotations"]["planned"].endswith(f"/?planned={of_alert}")
    assert alert["generatorURL"] == f"https://fare.example.com/?at={NOW_MS}#/job/job-1"
    assert ms(alert["startsAt"]) == NOW_MS
    assert ms(alert["endsAt"]) == NOW_MS + 5 + 5 * MINUTE_MS


def test_an_alert_about_a_team_bears_its_name_though_nobody_owns_it() -> None:
    alert = an_alert("vision", subject_kind="team", owner="", team="", project="")
    (sent,) = json.loads(alertmanager_body([alert], Links(), NOW_MS, MINUTE_MS))
    assert sent["labels"]["team"] == "vision"
    assert not {"owner", "project", "job"} & set(sent["labels"])


@pytest.mark.parametrize(
    "name",
    ['x",severity="page', "a\nseverity: page", "\ud800\u202e\x1b[31m", "{{ .Labels.owner }}", "x" * 256],
)
def test_a_name_is_the_value_of_its_label_and_nothing_else(name: str) -> None:
    usual, hostile = (
        json.loads(alertmanager_body([alert], Links("https://fare.example.com"), NOW_MS, MINUTE_MS))[0]
        for alert in (
            an_alert(severity="ticket"),
            an_alert(name, severity="ticket", owner=name, team=name, project=name, summary=f"{name} burns"),
        )
    )
    for part in ("labels", "annotations"):
        assert hostile[part].keys() == usual[part].keys()
        assert all(value.isprintable() for value in hostile[part].values())
    assert (hostile["labels"]["severity"], hostile["labels"]["alertname"]) == ("ticket", "burn_fast")
    assert hostile["labels"]["job"] == hostile["labels"]["owner"] == visible(name)


def test_a_resolved_one_ends_in_the_past_by_whatever_clock() -> None:
    for now_ms in (NOW_MS + 60_000, NOW_MS + 10_000, NOW_MS - 60_000):
        (alert,) = json.loads(alertmanager_body([resolved()], Links(), now_ms, MINUTE_MS))
        assert ms(alert["endsAt"]) == min(NOW_MS + 10_000, now_ms)
        assert ms(alert["startsAt"]) <= ms(alert["endsAt"])
        assert "generatorURL" not in alert


def test_every_peer_gets_every_change_and_no_owner_is_needed() -> None:
    there = office()
    run(there.offer(an_alert("a", owner=""), resolved("a", owner="")))
    for peer in (ONE, TWO):
        assert posted(there, peer) == [[("a", True)], [("a", False)]]
    assert sorted(set(there.rows("receiver", "outcome"))) == [
        ("alertmanager http://am-1:9093", "delivered"),
        ("alertmanager http://am-2:9093", "delivered"),
    ]


def test_what_fires_is_sent_again_each_minute_and_what_resolved_is_not() -> None:
    async def go() -> None:
        there = office()
        await there.offer(an_alert("a"), an_alert("b"), an_alert("c", silenced=True))
        there.sender.sent.clear()
        await there.work(MINUTE_MS - 1)
        assert there.sender.sent == []
        await there.work(1)
        assert posted(there, ONE) == [[("a", True), ("b", True)]]
        await there.offer(resolved("a"))
        there.sender.sent.clear()
        await there.work(MINUTE_MS)
        assert posted(there, ONE) == posted(there, TWO) == [[("b", True)]]
        assert len(there.rows("outcome")) == 7, "no rows of what is sent again"
        assert there.notifier.outcomes["refreshed"] == 4

    run(go())


def test_after_a_restart_what_fires_is_sent_again() -> None:
    async def go() -> None:
        first = office()
        await first.offer(an_alert("a"))
        second = Office(
            store=first.store, clock=first.clock, addresses=[], options={"alertmanager_urls": (ONE,)}
        )
        second.notifier.resume([SHARD])
        await second.work()
        assert second.sender.sent == []
        await second.work(MINUTE_MS)
        assert posted(second, ONE) == [[("a", True)]]
        second.notifier.release([SHARD])
        await second.work(MINUTE_MS)
        assert len(second.sender.sent) == 1

    run(go())


def test_a_peer_that_is_away_gets_all_when_it_is_back_and_delays_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def go() -> None:
        there = office({f"{ONE}{API}": [BUSY, BUSY, BUSY, OK]}, max_attempts=2)
        await there.offer(an_alert("a"))
        await there.work(1_000)
        assert ("alertmanager http://am-1:9093", 2, "failed") in there.rows("receiver", "attempt", "outcome")
        await there.work(MINUTE_MS)
        assert there.notifier.outcomes["refresh_failed"] == 1
        await there.work(MINUTE_MS)
        assert posted(there, ONE)[-1] == [("a", True)]
        assert len(posted(there, TWO)) == 3

    run(go())
    assert "were not sent again" in logged(caplog)


def test_resolved_is_sent_after_a_repetition_under_way() -> None:
    async def go() -> None:
        there = Office(addresses=[], options={"alertmanager_urls": (ONE,)})
        await there.offer(an_alert("a"))
        there.sender.sent.clear()
        there.sender.hanging[f"{ONE}{API}"] = gate = asyncio.Event()
        there.clock.advance(MINUTE_MS)
        await there.notifier.run_once()
        await asyncio.sleep(0)
        there.keep(resolved("a"))
        there.notifier.offer([resolved("a")], SHARD)
        await there.notifier.run_once()
        for _ in range(5):
            await asyncio.sleep(0)
        assert posted(there, ONE) == [[("a", True)]], "it would bring the alert back"
        gate.set()
        await there.work()
        assert posted(there, ONE) == [[("a", True)], [("a", False)]]

    run(go())


def test_the_token_is_shown_to_them_alone() -> None:
    there = Office(
        addresses=[Address("webhook", HOOK)],
        options={"alertmanager_urls": (ONE,), "alertmanager_token": "hunter2-hunter2-hunter2"},
    )
    run(there.offer(an_alert()))
    shown = {sent.url: sent.headers.get("authorization") for sent in there.sender.sent}
    assert shown == {HOOK: None, f"{ONE}{API}": "Bearer hunter2-hunter2-hunter2"}
    assert "hunter2-hunter2" not in repr(there.options)


def test_more_than_is_kept_is_sent_once_and_said(caplog: pytest.LogCaptureFixture) -> None:
    firing = FiringAlerts(at_most=2)
    for name in ("a", "b", "c", "b"):
        firing.note(an_alert(name), 0)
    assert [alert.subject_name for alert in firing.part(0, 10)] == ["a", "b"]
    assert "too many alerts fire" in logged(caplog)
    firing.note(resolved("a"), 0)
    firing.note(an_alert("b", silenced=True), 0)
    assert len(firing) == 0


def test_an_owners_webhook_does_not_reach_an_alertmanager_because_our_alerts_do() -> None:
    async def go() -> list[SendResult]:
        options = NotifierOptions(
            webhook_secret=SECRET, alertmanager_urls=("http://127.0.0.1:9",), timeout_ms=500
        )
        channels = Channels(options, ManualClock(NOW_MS), FiringAlerts())
        ways = [
            ("webhook", f"http://127.0.0.1:9{API}"),
            ("slack", f"http://127.0.0.1:9{API}"),
            ("alertmanager", "http://127.0.0.1:9"),
        ]
        return [
            await channels.send(Delivery(an_alert(), SHARD, "x", Receiver(CHANNEL_OF[kind].traits, url)))
            for kind, url in ways
        ]

    webhook, slack, peer = run(go())
    assert (webhook.verdict, slack.verdict) == ("refused", "refused")
    assert peer == SendResult("retry", 0, "no connection: Connection refused")
