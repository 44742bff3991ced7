"""Who is told of an alert, who is not and why, and that nobody else learns their addresses."""

from __future__ import annotations

import logging

import pytest

from streams.engine.alerts.alert import Address
from streams.notify.webhooks.sender import SendResult
from tests.logged import events, logged
from tests.notify.scripted_sender import BUSY, HOOK, OK, SECRET, SLACK, Office, an_alert, resolved, run

GONE = SendResult("failed", 410, "answered 410: the receiver does not accept the message")


def test_what_a_silence_covers_is_written_down_and_not_sent() -> None:
    office = Office()
    run(office.offer(an_alert(silenced=True), resolved()))
    assert office.rows("status", "outcome", "receiver", "attempt") == [
        ("firing", "silenced", "ada", 0),
        ("resolved", "silenced", "ada", 0),
    ]
    assert office.sender.sent == []


def test_what_is_about_too_few_dollars_is_written_down_and_sent_when_it_is_about_more() -> None:
    office = Office()
    small, its_end = an_alert(severity="digest"), resolved(severity="digest")
    grown = an_alert("b", severity="ticket", changed_ms=small.changed_ms + 10_000)
    run(office.offer(small, its_end, an_alert("b", severity="digest"), grown, resolved("b")))
    assert sorted(office.rows("status", "outcome")) == [
        ("firing", "delivered"),
        ("firing", "digest"),
        ("firing", "digest"),
        ("resolved", "delivered"),
        ("resolved", "digest"),
    ]


def test_an_owner_without_an_address_is_written_down() -> None:
    office = Office()
    run(office.offer(an_alert("a", owner="bob"), an_alert("b", owner="")))
    assert sorted(office.rows("receiver", "outcome", "detail")) == [
        ("", "no_receiver", "it has no owner, and alerts.default_webhook is not set"),
        ("bob", "no_receiver", "owner bob has no address, and alerts.default_webhook is not set"),
    ]


def test_the_default_webhook_stands_in_for_owners_without_an_address() -> None:
    office = Office(options={"default_webhook": "https://oncall.example.com/hunter2"})
    run(office.offer(an_alert("a", owner="bob"), an_alert("b", owner=""), an_alert("c")))
    assert sorted(office.rows("receiver", "outcome")) == [
        ("https://hooks.example.com", "delivered"),
        ("https://oncall.example.com", "delivered"),
        ("https://oncall.example.com", "delivered"),
    ]


def test_without_a_secret_nothing_is_sent_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    office = Office(options={"webhook_secret": None})
    run(office.offer(an_alert("a"), an_alert("b")))
    assert office.sender.sent == []
    assert office.rows("outcome", "detail") == [("no_receiver", "alerts.webhook_secret is not set")] * 2
    said = [line for line in caplog.messages if "not sent" in line]
    assert len(said) == 1


def test_slack_gets_its_own_form_unsigned() -> None:
    office = Office(addresses=[Address("slack", SLACK)])
    run(office.offer(an_alert("<!channel> & co")))
    sent = office.sender.sent[0]
    assert sent.headers == {}
    assert {"text", "blocks"} <= set(sent.body)
    assert "&lt;!channel&gt; &amp; co burns $786.56/h" in sent.body["text"]
    assert office.rows("receiver", "outcome") == [("https://hooks.slack.com", "delivered")]


def test_email_is_unsupported_and_says_what_to_do_and_the_default_webhook_is_told() -> None:
    office = Office(addresses=[Address("email", "ada@example.com")])
    run(office.offer(an_alert()))
    assert office.rows("receiver", "outcome", "attempt") == [("email", "unsupported", 0)]
    assert "alerts.smtp_host is not set" in office.rows("detail")[0][0]
    assert "ada@" not in str(office.rows("detail", "receiver"))
    second = Office(
        addresses=[Address("email", "ada@example.com")],
        options={"default_webhook": "https://oncall.example.com/hunter2"},
    )
    run(second.offer(an_alert()))
    assert sorted(second.rows("receiver", "outcome")) == [
        ("email", "unsupported"),
        ("https://oncall.example.com", "delivered"),
    ]


def test_every_address_of_an_owner_is_told_each_with_its_own_attempts() -> None:
    other = "https://hooks.example.com/another/hunter2"

    async def go() -> None:
        addresses = [Address("webhook", HOOK), Address("webhook", other), Address("slack", SLACK)]
        office = Office({other: [BUSY, OK]}, addresses=[*addresses, addresses[0]])
        await office.offer(an_alert())
        await office.work(1_000)
        assert sorted(office.rows("receiver", "attempt", "outcome")) == [
            ("https://hooks.example.com", 1, "delivered"),
            ("https://hooks.example.com #2", 1, "retrying"),
            ("https://hooks.example.com #2", 2, "delivered"),
            ("https://hooks.slack.com", 1, "delivered"),
        ]

    run(go())


@pytest.mark.parametrize("answer", [OK, BUSY, GONE])
def test_no_secret_is_in_lines_rows_or_reprs(answer: SendResult, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    office = Office(
        {HOOK: [answer]},
        addresses=[Address("webhook", HOOK), Address("slack", SLACK), Address("webhook", "no-url-hunter2")],
        options={"default_webhook": HOOK},
    )
    run(office.offer(an_alert()))
    rows = office.store.select("deliveries").to_pylist()
    everything = f"{logged(caplog)} {rows} {office.options!r} {office.notifier!r} {vars(office.notifier)}"
    assert len(rows) == 3
    assert "hunter2" not in everything
    assert SECRET not in everything
    assert SECRET.removeprefix("whsec_") not in everything


def test_a_job_id_can_neither_begin_a_line_of_the_log_nor_colour_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run(Office().offer(an_alert("a\n2026 all is well\x1b[2J", owner="\x1b[0m", silenced=True)))
    (line,) = [str(each["subject"]) for event, each in events(caplog.records) if event == "alert delivery"]
    assert "a\\n2026 all is well\\x1b[2J" in line
    assert line.isprintable()
