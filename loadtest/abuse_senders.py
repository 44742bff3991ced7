"""Honest senders beside the attack on the doors: signed webhooks of CI and events, each within two seconds.

An answer that did not come is counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from http import HTTPStatus
from typing import Final

import aiohttp

from loadtest.abuse_honest import UNANSWERED, Seen
from loadtest.abuse_silent import EVENTS, HOOK
from loadtest.abuse_wire import HOST, Target

WITHIN_S: Final = 2.0
_EVERY_S: Final = 0.2
#: Of a refusal, so that the figures tell which one it was.
_SAID_BYTES: Final = 120
KINDS: Final = ("hook", "events")


class Senders:
    """Both, from the address that attackers have, too."""

    def __init__(self, target: Target, secret: str) -> None:
        self._url = f"http://{HOST}:{target.port}"
        self._token = target.token
        self._secret = secret
        self.seen: list[Seen] = []

    async def go(self) -> None:
        """Until cancelled; open loop, so that one that takes long holds up no other."""
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with (
            aiohttp.ClientSession(self._url, connector=connector) as session,
            asyncio.TaskGroup() as group,
        ):
            number = 0
            while True:
                group.create_task(self._send(session, "hook", HOOK, *self._hook(number)))
                group.create_task(self._send(session, "events", EVENTS, *self._event(number)))
                number += 1
                await asyncio.sleep(_EVERY_S)

    def _hook(self, number: int) -> tuple[bytes, dict[str, str]]:
        job = {
            "id": number,
            "run_id": number,
            "name": "train",
            "created_at": "2026-06-01T10:00:00Z",
            "labels": ["gpu"],
        }
        repository = {"full_name": "acme/vision"}
        body = json.dumps({"action": "queued", "workflow_job": job, "repository": repository}).encode()
        digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
        return body, {"X-GitHub-Event": "workflow_job", "X-Hub-Signature-256": f"sha256={digest}"}

    def _event(self, number: int) -> tuple[bytes, dict[str, str]]:
        event = {
            "source": "door", "id": f"e{number}", "time_ms": time.time_ns() // 1_000_000, "job_id": f"door-{number}", "type": "queued",
        }  # fmt: skip
        return json.dumps(event).encode(), {"Authorization": f"Bearer {self._token}"}

    async def _send(
        self, session: aiohttp.ClientSession, what: str, path: str, body: bytes, headers: dict[str, str]
    ) -> None:
        at_s, began_s, outcome = time.time(), time.monotonic(), UNANSWERED
        sent = {"Content-Type": "application/json", **headers}
        try:
            async with asyncio.timeout(WITHIN_S), session.post(path, data=body, headers=sent) as answer:
                outcome = str(answer.status)
                if (said := await answer.read()) and answer.status >= HTTPStatus.BAD_REQUEST:
                    outcome = f"{outcome} {said[:_SAID_BYTES].decode(errors='replace')}"
        except (OSError, aiohttp.ClientError) as fault:  # a timeout is an OSError, too
            outcome = type(fault).__name__
        finally:
            self.seen.append(Seen(what, at_s, 1000 * (time.monotonic() - began_s), outcome))
