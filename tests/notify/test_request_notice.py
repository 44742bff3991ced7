"""What waits for a second person is told to those who may confirm it, with a link; no table has the link."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from schemas.events import ControlEvent
from schemas.tables import DELIVERIES
from streams.config.confirmers import Confirmer, confirmers_of
from streams.engine.alerts.alert import Address
from streams.notify.act_links import ActLinks
from streams.notify.channels.email import mail_message
from streams.notify.channels.slack import slack_body
from streams.notify.links import Links
from streams.notify.notice import Notice
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from streams.worker.receipts.request_messages import RequestMessages
from streams.worker.shards.owned_shard import OwnedShard
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, SECRET
from tests.notify.test_http import delivered, outcomes
from tests.notify.test_slack import check as check_slack
from tests.schemas.messages.test_json_schema import check
from tests.web.approvals import KEY, SILENCE, asked, id_of
from tests.web.serving import WALL_MS

LINKS = Links("https://fare.example.com", "https://docs.example.com/d", ActLinks(KEY))
GRACE = confirmers_of("grace=token/grace, ada, team/vision")
HOSTILE = "<!channel> *b*\n\u202e<script>\x1b[31m"


class Sink:
    """Keeps what is offered."""

    def __init__(self) -> None:
        self.offered: list[Notice] = []

    def offer(self, alerts: Any, shard: int) -> None:
        assert shard == 0
        self.offered += alerts

    def resume(self, shards: Any) -> None: ...

    def resume_receipts(self) -> None: ...

    def release(self, shards: Any) -> None: ...


class Owner:
    """Shard 0."""

    gone = False


def told(
    requests: dict[bytes, ControlEvent],
    owners: list[Any],
    now_ms: int = WALL_MS,
    to: list[Confirmer] | None = None,
) -> list[Notice]:
    """What is offered while shard 0 has these owners, one after another."""
    sink = Sink()
    messages = RequestMessages(lambda: requests, GRACE if to is None else to, sink, LINKS, lambda: now_ms)
    for owner in owners:
        messages.step(owner)
    return sink.offered


def test_each_is_told_once_and_anew_by_another_owner_of_the_shard() -> None:
    one, other = Owner(), Owner()
    first = told(asked(SILENCE, "token/bob"), [None, one, one])
    assert [(each.owner, each.team) for each in first] == [("grace", ""), ("ada", "")]
    again = told(asked(SILENCE, "token/bob"), [one, other])
    assert [each.alert_id for each in again] == [each.alert_id for each in (*first, *first)]


def test_nobody_is_told_of_what_is_over_confirmed_or_not_theirs() -> None:
    owner = Owner()
    assert told(asked(SILENCE, "token/bob"), [owner], WALL_MS + 3_600_000) == []
    assert told(asked(SILENCE, "token/bob", confirmed_by="token/ada"), [owner]) == []
    assert told(asked(SILENCE, "token/bob"), [owner], to=[]) == []
    budget = {"kind": "budget", "name": "b", "team": "vision"}
    assert [each.team for each in told(asked(budget, "token/bob"), [owner])] == ["", "", "vision"]
    assert len(told(asked({**budget, "team": "speech"}, "token/bob"), [owner])) == 2
    inner = {"kind": "silence", "match": {"team": "vision"}}
    assert len(told(asked(inner, "token/bob"), [owner])) == 3
    own = told(asked(SILENCE, "token/grace"), [owner])  # nobody confirms their own
    assert [each.owner for each in own] == ["ada"]


def test_the_receiver_verifies_it_and_the_link_confirms_this_request() -> None:
    requests = asked(SILENCE, "token/bob")
    notice, _ = told(requests, [Owner()])

    async def go() -> tuple[list[Received], MemoryStore]:
        got: list[Received] = []
        receiver = WebhookReceiver(SECRET, got.append)
        await receiver.start()
        store = MemoryStore()
        await delivered(store, Address("webhook", receiver.url), [notice], receiver.host_port)
        await receiver.stop()
        return got, store

    (got,), store = asyncio.run(go())
    check(notice.body)
    data = got.data
    assert got.type == "request.waiting"
    assert data["command"] == f"trainfare approve {id_of(requests)}"
    assert json.loads(data["what"]) == SILENCE
    opened = ActLinks(KEY).confirmed(data["links"]["confirm"].partition("#confirm=")[2], WALL_MS)
    assert (opened.request, opened.identity) == (id_of(requests), "token/grace")
    assert outcomes(store) == [("issued", 1, "delivered", 204)]
    link = data["links"]["confirm"].partition("#")[2]
    assert link not in str(store.select(DELIVERIES).to_pylist())


def test_people_get_a_button_and_names_stay_text() -> None:
    control = {"kind": "silence", "rule": "burn_fast", "comment": HOSTILE * 20, "until_ms": WALL_MS + 9}
    notice, _ = told(asked(control, f"person/{HOSTILE}"), [Owner()])
    check(notice.body)
    slack = json.loads(slack_body([notice], LINKS))
    check_slack(slack)
    buttons = [each for block in slack["blocks"] for each in block.get("elements", []) if "url" in each]
    assert [each["text"]["text"] for each in buttons] == ["Confirm", "Who may"]
    assert buttons[0]["url"].startswith("https://fare.example.com/act#confirm=")
    mail = mail_message(
        [notice], LINKS, sender="a@b.example", to="c@d.example", message_id="x", now_ms=NOW_MS
    )
    parts: list[Any] = [mail.get_body((kind,)) for kind in ("plain", "html")]
    text, html = (each.get_content() for each in parts)
    assert buttons[0]["url"] in text
    assert "\x1b" not in text
    assert "<script>" not in html


def test_without_a_key_the_link_leads_to_the_page() -> None:
    sink = Sink()
    requests = asked(SILENCE, "token/bob")
    links, owner = Links("https://fare.example.com"), cast("OwnedShard", Owner())
    RequestMessages(lambda: requests, GRACE[:1], sink, links, lambda: WALL_MS).step(owner)
    assert sink.offered[0].links == (("Confirm", "https://fare.example.com/#/changes"),)


@pytest.mark.parametrize(
    "text", ["=token/x", "team/", "ada=person/ada", "team/a=token/b", "ada=token/", "a=b=c"]
)
def test_a_wrong_setting_says_what_it_may_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|name the owner"):
        confirmers_of(text)


def test_the_setting_names_owners_teams_and_tokens() -> None:
    assert confirmers_of(" grace=token/g , ada,, team/vision") == [
        Confirmer("grace", "", "token/g"),
        Confirmer("ada"),
        Confirmer("", "vision"),
    ]
