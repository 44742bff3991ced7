"""Mail servers, real and bad: what arrives, what each answer means, and what no answer costs."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streams.clock import SystemClock
from streams.engine.alerts.alert import Address
from streams.notify.channels.email import mail_message
from streams.notify.links import Links
from streams.notify.mailer import Mailer, SmtpOptions
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.receiver import WebhookReceiver
from streams.notify.webhooks.sender import SendResult
from tests.logged import logged
from tests.memory_store import MemoryStore
from tests.notify.mail.servers import PASSWORD, SENDER, USER, bad_server, free_port, mail_server
from tests.notify.scripted_sender import NOW_MS, SECRET, SHARD, an_alert, resolved
from tests.notify.test_http import PATIENCE_MS, outcomes

TO = "ada@example.com"
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")  # it is inside TLS


def sent(options: SmtpOptions, to: str = TO, timeout_ms: int = 10_000) -> SendResult:
    async def go() -> SendResult:
        message = mail_message(
            [an_alert("\u00fc" * 100)], Links(), sender=SENDER, to=TO, message_id="msg_1", now_ms=NOW_MS
        )
        return await Mailer(options, timeout_ms=timeout_ms).send(to, message.as_bytes())

    return asyncio.run(go())


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_message_arrives_whole(security: str, tmp_path: Path) -> None:
    with mail_server(tmp_path, security) as (box, options):
        assert sent(options) == SendResult("delivered", 250, "")
    ((sender, recipients, message),) = box.taken
    assert (sender, recipients) == (SENDER, [TO])
    assert "\u00fc" * 100 in message["Subject"]
    assert (box.sessions[0].ssl is not None) == (security == "starttls")


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_that_asks_for_a_user_gets_it_over_tls(security: str, tmp_path: Path) -> None:
    with mail_server(tmp_path, security, auth=True) as (box, options):
        assert sent(replace(options, user=USER, password=PASSWORD)).verdict == "delivered"
        wrong = sent(replace(options, user=USER, password="wrong-hunter2"))
        assert wrong == SendResult("retry", 535, "the SMTP server does not accept alerts.smtp_user")
        assert "hunter2" not in repr(replace(options, password="hunter2"))
    assert len(box.taken) == 1


def test_a_certificate_that_nobody_vouches_for_gets_neither_message_nor_password(tmp_path: Path) -> None:
    for security in ("starttls", "tls"):
        with mail_server(tmp_path, security, auth=True) as (box, options):
            answer = sent(replace(options, ca_file=None, user=USER, password=PASSWORD))
            assert answer.verdict == "retry"
            assert "certificate is not accepted" in answer.detail or "TLS" in answer.detail
            assert box.taken == []


def test_a_server_without_starttls_gets_neither(tmp_path: Path) -> None:
    with mail_server(tmp_path) as (box, options):
        answer = sent(replace(options, security="starttls", user=USER, password=PASSWORD))
        assert (answer.verdict, box.taken) == ("retry", [])
        assert "smtp_security" in answer.detail


def test_a_password_is_not_shown_without_tls(tmp_path: Path) -> None:
    with mail_server(tmp_path) as (box, options):
        assert sent(replace(options, user=USER, password=PASSWORD)).verdict == "delivered"
    assert not box.sessions[0].authenticated


@pytest.mark.parametrize(
    ("said", "verdict"), [("550 no such user hunter2", "failed"), ("451 later", "retry")]
)
def test_a_refused_recipient(said: str, verdict: str, tmp_path: Path) -> None:
    with mail_server(tmp_path) as (box, options):
        box.refuses[TO] = said
        answer = sent(options)
    assert (answer.verdict, answer.http_status) == (verdict, int(said[:3]))
    assert "hunter2" not in answer.detail


def test_what_is_no_plain_address_or_of_another_domain_is_refused(tmp_path: Path) -> None:
    with mail_server(tmp_path) as (box, options):
        for to in ("eve@evil.example, ada@example.com", "ada@example.com\r\nRCPT TO:<eve@evil.example>"):
            assert sent(options, to).verdict == "refused"
        limited = replace(options, domains=frozenset(("example.com",)))
        assert sent(limited, "eve@evil.example").verdict == "refused"
        assert sent(limited, "ada@Example.com").verdict == "delivered"
    assert len(box.taken) == 1


def test_nobody_there() -> None:
    answer = sent(SmtpOptions("127.0.0.1", free_port(), SENDER))
    assert answer == SendResult("retry", 0, "no connection to the SMTP server: Connection refused")


def test_a_name_that_leads_nowhere() -> None:
    answer = sent(SmtpOptions("no-such-host.invalid", 25, SENDER))
    assert answer == SendResult("retry", 0, "the name of the SMTP server could not be resolved")


def bad(talk: Any, timeout_ms: int = 300) -> SendResult:
    async def go() -> SendResult:
        async with bad_server(talk) as options:
            message = mail_message(
                [an_alert()], Links(), sender=SENDER, to=TO, message_id="msg_1", now_ms=NOW_MS
            )
            return await Mailer(options, timeout_ms=timeout_ms).send(TO, message.as_bytes())

    return asyncio.run(go())


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(600):
        writer.write(b"220-x\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(16_384):  # 1 GiB
        writer.write(b"220-" + b"x" * 65_532)
        await writer.drain()


async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hunter2 \xff\x00\r\n")
    await writer.drain()
    await reader.read(1)


async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 hello\r\n")
    await writer.drain()


@pytest.mark.parametrize("talk", [hang, drip])
def test_a_server_that_is_silent_or_slow_takes_its_time_and_no_more(talk: Any) -> None:
    assert bad(talk) == SendResult("retry", 0, "no answer within 300 ms")


@pytest.mark.parametrize("talk", [flood, babble, leave])
def test_a_server_that_says_something_else(talk: Any) -> None:
    answer = bad(talk, timeout_ms=5_000)
    assert answer.verdict == "retry"
    assert "hunter2" not in answer.detail


def test_an_owner_gets_e_mail_about_both_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def go(options: SmtpOptions) -> MemoryStore:
        store = MemoryStore()
        notifier = Notifier(
            store, lambda _: [Address("email", TO)], NotifierOptions(smtp=options), SystemClock()
        )
        running = asyncio.create_task(notifier.run())
        for alert in (an_alert(), resolved()):
            notifier.offer([alert], SHARD)
            assert await notifier.drain(PATIENCE_MS) == 0
        await notifier.stop()
        await running
        return store

    with mail_server(tmp_path, "starttls", auth=True) as (box, options):
        store = asyncio.run(go(replace(options, user=USER, password=PASSWORD)))
    assert [message["Subject"][2:] for _, _, message in box.taken] == [
        "job-1: Runaway burn (page)",
        "job-1: Runaway burn resolved",
    ]
    assert outcomes(store) == [("firing", 1, "delivered", 250), ("resolved", 1, "delivered", 250)]
    assert TO not in logged(caplog) + str(store.select("deliveries").to_pylist())


def test_a_dead_mail_server_delays_no_webhook() -> None:
    async def go() -> None:
        got = asyncio.Event()
        receiver = WebhookReceiver(SECRET, lambda _: got.set())
        await receiver.start()
        async with bad_server(hang) as options:
            notifier = Notifier(
                MemoryStore(),
                lambda owner: [Address("email", TO) if owner == "ada" else Address("webhook", receiver.url)],
                NotifierOptions(webhook_secret=SECRET, allow_hosts=receiver.host_port, smtp=options),
                SystemClock(),
            )
            running = asyncio.create_task(notifier.run())
            notifier.offer([an_alert(f"job-{number}") for number in range(200)], SHARD)
            notifier.offer([an_alert("other", owner="bob")], SHARD)
            async with asyncio.timeout(10):
                await got.wait()
            assert notifier.in_flight <= 5
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
        await receiver.stop()

    asyncio.run(go())
