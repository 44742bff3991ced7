"""The receiver that ships: only verified messages pass, each once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from streams.notify.webhooks.sender import Sender
from streams.notify.webhooks.signing import Signer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = {"type": "alert.firing", "timestamp": "2026-01-01T00:00:00.000Z", "data": {"alert_id": "al_1"}}
BODY = json.dumps(MESSAGE).encode()


def receive(sent: list[tuple[bytes, dict[str, str]]], on_message: Callable[[Received], object]) -> list[int]:
    """The statuses that the receiver answers."""

    async def go() -> list[int]:
        receiver = WebhookReceiver(SECRET, on_message)
        await receiver.start()
        try:
            statuses = []
            async with aiohttp.ClientSession() as session:
                for body, headers in sent:
                    async with session.post(receiver.url, data=body, headers=headers) as response:
                        statuses.append(response.status)
            return statuses
        finally:
            await receiver.stop()

    return asyncio.run(go())


def signed(body: bytes = BODY, webhook_id: str = "msg_1") -> tuple[bytes, dict[str, str]]:
    return body, Signer(SECRET).headers(webhook_id, body, time.time_ns() // 1_000_000)


def test_a_message_of_ours_is_verified_and_handed_on() -> None:
    async def go() -> tuple[str, list[Received]]:
        got: list[Received] = []
        receiver = WebhookReceiver(SECRET, got.append)
        await receiver.start()
        body, headers = signed()
        answer = await Sender(ReceiverGuard(receiver.host_port), timeout_ms=2_000).post(
            receiver.url, body, headers
        )
        await receiver.stop()
        return answer.verdict, got

    verdict, got = asyncio.run(go())
    assert verdict == "delivered"
    assert got == [Received("msg_1", "alert.firing", "2026-01-01T00:00:00.000Z", {"alert_id": "al_1"})]


def test_it_is_not_reached_without_being_listed() -> None:
    async def go() -> tuple[str, list[Any]]:
        got: list[Any] = []
        receiver = WebhookReceiver(SECRET, got.append)
        await receiver.start()
        answer = await Sender(ReceiverGuard(), timeout_ms=2_000).post(receiver.url, *signed())
        await receiver.stop()
        return answer.verdict, got

    assert asyncio.run(go()) == ("refused", [])


def test_what_is_not_signed_rightly_is_refused() -> None:
    got: list[Received] = []
    body, headers = signed()
    changed = body.replace(b"al_1", b"al_2")
    sent = [
        (changed, headers),
        (body, {}),
        (body, {**headers, "webhook-signature": "v1"}),
        (body, {**headers, "webhook-signature": "v1,%%%"}),
        (body, {**headers, "webhook-timestamp": "1600000000"}),
        (b"\xff\xfe", headers),
        signed(b"no json"),
    ]
    assert receive(sent, got.append) == [401] * 7
    assert got == []


def test_a_signed_message_of_another_form_is_refused() -> None:
    got: list[Received] = []
    assert receive([signed(b"[]"), signed(b'{"type": "x"}', "msg_2")], got.append) == [400, 400]
    assert got == []


def test_the_same_message_is_handed_on_once() -> None:
    got: list[Received] = []
    assert receive([signed(), signed(), signed(webhook_id="msg_2")], got.append) == [204, 204, 204]
    assert [each.webhook_id for each in got] == ["msg_1", "msg_2"]


def test_a_message_whose_handling_failed_comes_again() -> None:
    got: list[Received] = []

    def fail_once(message: Received) -> None:
        got.append(message)
        if len(got) == 1:
            raise RuntimeError("not now")

    assert receive([signed(), signed(), signed()], fail_once) == [500, 204, 204]
    assert len(got) == 2
