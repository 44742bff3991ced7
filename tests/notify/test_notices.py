"""Receipts on the way of alerts: over real HTTP and SMTP, to people and programs, once each, and no name says more."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from jsonschema import ValidationError

from streams.clock import SystemClock
from streams.engine.alerts.alert import Address
from streams.notify.channels.email import mail_message
from streams.notify.channels.slack import slack_body
from streams.notify.history import RECEIPT_SHARD
from streams.notify.links import Links
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from tests.memory_store import MemoryStore
from tests.notify.mail.servers import mail_server
from tests.notify.notices import CHEAPER, FIGURES, a_digest_notice, a_notice, a_receipt, keep
from tests.notify.scripted_sender import BUSY, HOOK, NOW_MS, OK, SECRET, SLACK, Office, an_alert, run
from tests.notify.test_http import PATIENCE_MS, delivered, outcomes
from tests.notify.test_slack import check as check_slack
from tests.notify.test_slack import texts
from tests.schemas.messages.test_json_schema import check

HOSTILE = "<!channel> *b*\n\u202e<script>\x1b[31m"
SENTENCE = (
    "run-8 completed: $412.07 in 6.2 h ($66.46/h). 7 % lost to 2 preemptions; GPUs 81 % productive;"
    " 12 % over the median of similar jobs."
)


def test_the_receiver_verifies_it_and_its_schema_takes_it() -> None:
    async def go() -> tuple[list[Received], MemoryStore]:
        got: list[Received] = []
        receiver = WebhookReceiver(SECRET, got.append)
        await receiver.start()
        store = MemoryStore()
        await delivered(store, Address("webhook", receiver.url), [a_notice()], receiver.host_port)
        await receiver.stop()
        assert (receiver.refused, receiver.repeated) == (0, 0)
        return got, store

    (got,), store = asyncio.run(go())
    assert (got.type, got.data["summary"]) == ("job.ended", SENTENCE)
    assert outcomes(store) == [("issued", 1, "delivered", 204)]


def test_receipts_and_digests_go_to_owners_alone_and_what_is_asked_of_a_team_to_the_team() -> None:
    async def go() -> list[tuple[str, str]]:
        office = Office()
        office.notifier.look_up_teams(lambda team: (Address("webhook", f"https://hooks.example.com/{team}"),))
        to_team = msgspec.structs.replace(a_notice(job_id="run-9"), owner="")
        for notice in (a_notice(), a_digest_notice("ada"), to_team):
            office.notifier.offer([notice], RECEIPT_SHARD)
            await office.work()
        return [(sent.body["type"], sent.url) for sent in office.sender.sent]

    assert run(go()) == [
        ("job.ended", HOOK),
        ("digest.weekly", HOOK),
        ("job.ended", "https://hooks.example.com/vision"),
    ]


def test_the_sentence_says_what_is_over_under_and_cheaper() -> None:
    summary = a_notice(CHEAPER).summary
    assert summary.endswith(
        "; at its expected rate; 12 % over the median of similar jobs; spot would have saved $112.07."
    )
    under = CHEAPER._replace(expected_nano_per_hour=10**11, cost_nano=100 * 10**9, lost_nano=1, preemptions=0)
    assert a_notice(under).summary == (
        "run-8 completed: $100.00 in 6.2 h ($16.13/h). less than 1 % lost; GPUs 81 % productive;"
        " 84 % under its expected rate; 73 % under the median of similar jobs; spot would have saved $-200.00."
    )
    assert (
        "; 4.0 times its expected rate;"
        in a_notice(CHEAPER._replace(expected_nano_per_hour=16_615_725_806)).summary
    )
    assert "no price" in a_notice(CHEAPER._replace(is_unpriced=True)).summary


def test_it_arrives_by_mail_as_text_and_html(tmp_path: Path) -> None:
    async def go(options: Any) -> MemoryStore:
        store = MemoryStore()
        notifier = Notifier(
            store,
            lambda _: [Address("email", "ada@example.com")],
            NotifierOptions(webhook_secret=SECRET, smtp=options),
            SystemClock(),
        )
        running = asyncio.create_task(notifier.run())
        notifier.offer([a_notice(CHEAPER)], 0)
        assert await notifier.drain(PATIENCE_MS) == 0
        await notifier.stop()
        await running
        return store

    with mail_server(tmp_path, "none") as (box, options):
        store = asyncio.run(go(options))
    ((_, _, message),) = box.taken
    assert message["Subject"] == "run-8 completed: $412.07"
    text, html = (part.get_content() for part in message.iter_parts())
    assert "Lost: $28.84 (7 %)" in text
    assert "On spot: $300.00" in text
    assert "Median of similar jobs</td><td>$367.92 (6 jobs)" in html
    assert outcomes(store)[0][2] == "delivered"


def test_no_name_says_more_anywhere() -> None:
    notice = a_notice(job_id=HOSTILE, team=HOSTILE, owner=HOSTILE)
    assert check(notice.body)["data"]["job_id"] == HOSTILE
    slack = orjson.loads(slack_body([notice], Links("https://fare.example.com", "https://docs.example.com")))
    check_slack(slack)
    shown = [slack["text"], *(each["text"] for each in texts(slack) if each["type"] == "plain_text")]
    assert not [text for text in shown if set(text) & set("<>\u202e\x1b")]
    mail = mail_message(
        [notice], Links(), sender="a@example.com", to="b@example.com", message_id="m", now_ms=NOW_MS
    )
    assert "\n" not in mail["Subject"]
    text, html = (part.get_content() for part in mail.iter_parts())
    assert "<script>" not in html
    assert not set(text + html) & set("\u202e\x1b")


def test_people_get_it_at_once_and_an_alertmanager_does_not() -> None:
    async def scenario() -> None:
        options = {"group_wait_ms": 600_000, "alertmanager_urls": ("http://am-1:9093",)}
        office = Office(addresses=[Address("webhook", HOOK), Address("slack", SLACK)], options=options)
        office.notifier.offer([a_notice()], 0)
        await office.work()
        assert {sent.url for sent in office.sender.sent} == {HOOK, SLACK}
        assert {row[0] for row in office.rows("outcome")} == {"delivered"}

    run(scenario())


def test_what_a_former_process_stored_is_sent_by_the_owner_of_shard_0_once() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        keep(store, a_receipt(), a_receipt(ended_ms=NOW_MS - 1))
        other = Office(store=store)
        other.notifier.resume([1, 2])
        await other.work()
        assert other.sender.sent == []
        office = Office({HOOK: [BUSY, OK]}, store=store)
        office.notifier.resume([0])
        await office.work()
        await office.work(60_000)
        ids = [sent.headers["webhook-id"] for sent in office.sender.sent]
        assert (len(ids), len(set(ids))) == (3, 2)
        again = Office(store=store)
        again.notifier.resume([0])
        await again.work()
        assert again.sender.sent == []

    run(scenario())


def test_a_receipt_that_is_stored_after_the_takeover_is_sent_and_no_alert_beside_it() -> None:
    async def scenario() -> None:
        office = Office(store=MemoryStore())
        office.notifier.resume([0])
        await office.work()
        office.keep(an_alert("of a former owner"), shard=0)
        keep(office.store, a_receipt())
        await office.work()
        assert office.sender.sent == []
        office.notifier.resume_receipts()
        await office.work()
        assert [sent.body["type"] for sent in office.sender.sent] == ["job.ended"]
        office.notifier.resume_receipts()
        await office.work()
        assert len(office.sender.sent) == 1

    run(scenario())


@pytest.mark.parametrize("ours", [[1], [0]])
def test_owed_receipts_are_read_by_the_owner_of_shard_0_alone(ours: list[int]) -> None:
    async def scenario() -> None:
        office = Office(store=MemoryStore())
        office.notifier.resume(ours)
        await office.work()
        keep(office.store, a_receipt())
        office.notifier.resume_receipts()
        office.notifier.release([0])
        await office.work()
        assert office.sender.sent == []

    run(scenario())


def test_many_that_are_owed_are_read_page_by_page() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        keep(store, *(a_receipt(FIGURES, job_id=f"job-{number}") for number in range(1_100)))
        office = Office(store=store)
        office.notifier.resume([0])
        await office.work()
        names = {json.loads(json.dumps(sent.body))["data"]["job_id"] for sent in office.sender.sent}
        assert len(names) == len(office.sender.sent) == 1_100

    run(scenario())


@pytest.mark.parametrize("field", ["receipt_id", "cost_usd", "state"])
def test_another_message_does_not_fit_the_schema(field: str) -> None:
    message = json.loads(a_notice().body)
    message["data"][field] = "?"
    with pytest.raises(ValidationError):
        check(json.dumps(message).encode())


def test_no_name_in_a_digest_says_more_either() -> None:
    notice = a_digest_notice(HOSTILE)
    assert check(notice.body)["type"] == "digest.weekly"
    slack = orjson.loads(slack_body([notice], Links("https://fare.example.com", "https://docs.example.com")))
    check_slack(slack)
    shown = [slack["text"], *(each["text"] for each in texts(slack) if each["type"] == "plain_text")]
    assert not [text for text in shown if set(text) & set("<>\u202e\x1b")]
    mail = mail_message(
        [notice], Links(), sender="a@example.com", to="b@example.com", message_id="m", now_ms=NOW_MS
    )
    text, html = (part.get_content() for part in mail.iter_parts())
    assert "<script>" not in html
    assert not set(text + html) & set("\u202e\x1b")
    assert "Week before: $2.00 (-$1.00)" in text
