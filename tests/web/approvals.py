"""A server with issued tokens and requests that wait, and what asks it to confirm them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.validate_requests import waiting_request
from schemas.validate_tokens import hash_of
from streams.keys import OutgoingRecord
from streams.notify.act_links import ActLinks, Confirmation
from streams.web.second_person import request_record
from streams.web.token_records import token_record
from tests.web.serving import WALL_MS, Client

KEY: Final = "a-key-of-thirty-two-characters-or-more"
SILENCE: Final[dict[str, Any]] = {"kind": "silence", "rule": "burn_fast", "until_ms": WALL_MS + 600_000}


def text_of(name: str) -> str:
    """The text of a token of this name."""
    return f"trainfare_{hashlib.sha256(name.encode()).hexdigest()[:43]}"


def bearer(name: str) -> dict[str, str]:
    """What shows the token of this name."""
    return {"Authorization": f"Bearer {text_of(name)}"}


def issued(name: str, scopes: Sequence[str] = ("act", "limit"), **more: Any) -> dict[bytes, ControlEvent]:
    """The record of an issued token; `revoked` ends it, `issues_for` is whose the one is that issued it."""
    revoked, issues_for = more.pop("revoked", False), more.pop("issues_for", "")
    asked = {"name": name, "hash": hash_of(text_of(name)), "scopes": list(scopes), **more}
    record = token_record(asked, {}, "test", WALL_MS, issues_for)
    event = decode("controls", record.value, (), WALL_MS)
    assert isinstance(event, ControlEvent), event
    if revoked:
        ended = token_record({"name": name, "revoked": True}, {record.key: event}, "test", WALL_MS)
        event = decode("controls", ended.value, (), WALL_MS)
        assert isinstance(event, ControlEvent), event
    return {record.key: event}


def asked(control: dict[str, Any], by: str, **more: Any) -> dict[bytes, ControlEvent]:
    """The record of a request."""
    at_ms = more.pop("at_ms", WALL_MS)
    record = request_record(control, by, at_ms, **more)
    event = decode("controls", record.value, (), at_ms)
    assert isinstance(event, ControlEvent), event
    return {record.key: event}


def id_of(requests: dict[bytes, ControlEvent]) -> str:
    """The id of the one request."""
    (event,) = requests.values()
    return event.name


def link_of(requests: dict[bytes, ControlEvent], identity: str = "", **changes: Any) -> str:
    """What stands behind the `#` of a message about the one request."""
    (event,) = requests.values()
    found = waiting_request(event)
    fields = {
        "request": found.id,
        "digest": found.digest,
        "what": "{}",
        "by": found.by,
        "ends_ms": found.until_ms,
    }
    return ActLinks(KEY).confirm_token(Confirmation(**{**fields, "identity": identity, **changes}))


@dataclass
class Kept:
    """Takes records of any topic."""

    records: list[OutgoingRecord] = field(default_factory=list)

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        self.records += records

    @property
    def by(self) -> list[tuple[str, str]]:
        """Kind and author of each."""
        values = [json.loads(each.value) for each in self.records]
        return [
            (each.get("kind", "price"), each.get("confirmed_by") or each.get("by", "")) for each in values
        ]


async def post(client: Client, path: str, body: object, headers: dict[str, str]) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    async with client.session.post(client.server.url + path, json=body, headers=headers) as answer:
        return answer.status, await answer.json()
