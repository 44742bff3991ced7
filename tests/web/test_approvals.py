"""What waits for a second person is confirmed once, by somebody else, as it was asked for; the link of a message does no more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from schemas.change_tables import PROOF_HEADER
from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.validate_tokens import hash_of, issued_token
from streams.notify.act_links import ActLinks, offer_of
from streams.web.scopes import Caller
from streams.web.token_records import token_record
from tests.notify.scripted_sender import an_alert
from tests.web.approvals import KEY, SILENCE, Kept, asked, bearer, id_of, issued, link_of, post, text_of
from tests.web.serving import WALL_MS, Client, served

PATH = "/api/v1/approvals"
ADA = "token/ada"
TOKENS = {
    **issued("ada"),
    **issued("ada-laptop", person="Ada@example.com"),
    **issued("ada-phone", person="ada@example.com"),
    **issued("ada-ci", issues_for="token/ada"),
    **issued("ada-cron", issues_for="ada@example.com"),
    **issued("bob", person="bob@example.com", issues_for="token/ada"),
    **issued("boss", ("admin",)),
    **issued("viewer", ("read",)),
    **issued("sender", ("ingest",)),
    **issued("limiter", ("limit",)),
    **issued("lead", teams=["vision"]),
    **issued("gone", revoked=True),
    **issued("old", expires_ms=WALL_MS - 1),
}
LIVE = {"kind": "actions", "mode": "live"}
STOP = {"kind": "budget", "name": "cap", "team": "vision", "usd": "5", "per": "month", "actions": ["notify", {"do": "stop", "at": 1.2}]}  # fmt: skip


def confirmed(
    requests: dict[bytes, ControlEvent], *tries: tuple[str, object, str], key: str | None = KEY
) -> tuple[list[tuple[int, Any]], Kept]:
    """The answers to tries (path, body, name of the token), one after another, and what was written."""
    log = Kept()

    async def work(client: Client) -> list[tuple[int, Any]]:
        return [await post(client, path, body, bearer(name) if name else {}) for path, body, name in tries]

    options = {
        "wall_ms": WALL_MS,
        "controls": log,
        "filed": TOKENS,
        "requests": requests,
        "act_link_key": key,
    }
    return served(None, work, **options), log


@pytest.mark.parametrize(
    ("by", "person", "name", "status", "code"),
    [
        (ADA, "", "bob", 202, None),
        (ADA, "", "ada", 403, "not_second"),
        ("token/ada-laptop", "Ada@example.com", "ada-phone", 403, "not_second"),
        ("person/ada@example.com", "", "ada-phone", 403, "not_second"),
        ("token/ada-laptop", "Ada@example.com", "bob", 202, None),
        (ADA, "", "ada-ci", 403, "not_second"),
        ("token/ada-ci", "token/ada", "ada", 403, "not_second"),
        ("token/ada-ci", "token/ada", "bob", 202, None),
        ("person/ada@example.com", "", "ada-cron", 403, "not_second"),
        (ADA, "", "viewer", 403, None),
        (ADA, "", "sender", 403, None),
        (ADA, "", "limiter", 403, None),
        (ADA, "", "lead", 404, "no_such_request"),
        (ADA, "", "gone", 401, None),
        (ADA, "", "old", 401, None),
        ("token/gone", "", "bob", 403, "not_second"),
        ("token/old", "", "bob", 403, "not_second"),
        ("token/nobody", "", "bob", 403, "not_second"),
    ],
)
def test_another_person_in_force_confirms_what_one_in_force_asked_for(
    by: str, person: str, name: str, status: int, code: str | None
) -> None:
    requests = asked(SILENCE, by, person=person)
    ((found_status, found),), log = confirmed(requests, (PATH, {"id": id_of(requests)}, name))
    assert found_status == status, found
    assert code is None or found["error"]["code"] == code, found
    assert bool(log.records) == (status == 202)


def test_a_second_confirmation_writes_nothing() -> None:
    requests = asked(SILENCE, ADA)
    once = (PATH, {"id": id_of(requests)}, "bob")
    ((first, _), (second, found)), log = confirmed(requests, once, once)
    assert (first, second, found["error"]["code"]) == (202, 404, "no_such_request")
    assert log.by == [("silence", "token/ada, confirmed by token/bob"), ("request", "token/bob")]


@pytest.mark.parametrize("control", [SILENCE, LIVE, STOP, {"kind": "prices", "prices": [{"sku": "s", "component": "gpu", "usd": "9", "per": "gpu_hour", "effective_ms": 0}]}])  # fmt: skip
def test_of_confirmations_that_race_one_writes(control: dict[str, Any]) -> None:
    requests = asked(control, ADA)
    log = Kept()

    async def work(client: Client) -> list[int]:
        body = {"id": id_of(requests)}
        tries = [post(client, PATH, body, bearer(name)) for name in ("bob", "ada-phone", "bob", "ada-phone")]
        return sorted([status for status, _ in await asyncio.gather(*tries)])

    found = served(None, work, wall_ms=WALL_MS, controls=log, filed=TOKENS, requests=requests)
    assert found == [202, 404, 404, 404]
    assert len([kind for kind, _ in log.by if kind == "request"]) == 1


def test_what_could_not_be_written_can_be_confirmed_again() -> None:
    requests = asked({**SILENCE, "until_ms": "soon"}, ADA)
    body = (PATH, {"id": id_of(requests)}, "bob")
    found, log = confirmed(requests, body, body)
    assert [status for status, _ in found] == [400, 400]
    assert not log.records


@pytest.mark.parametrize(
    ("identity", "path", "name", "status", "code"),
    [
        ("", PATH, "bob", 202, None),
        ("", PATH, "ada", 403, "not_second"),
        ("", PATH, "", 401, None),
        ("", "/api/v1/act", "", 401, "who"),
        ("", "/api/v1/act", "bob", 401, "who"),  # this path looks at no token
        ("token/bob", "/api/v1/act", "", 202, None),
        ("token/bob", PATH, "ada", 403, "not_second"),  # it is whoever shows a token there
        ("token/ada", "/api/v1/act", "", 403, "not_second"),
        ("token/gone", "/api/v1/act", "", 403, "who"),
        ("token/old", "/api/v1/act", "", 403, "who"),
        ("token/nobody", "/api/v1/act", "", 403, "who"),
        ("person/bob", "/api/v1/act", "", 403, "who"),
        ("web.token", "/api/v1/act", "", 403, "who"),
        ("token/viewer", "/api/v1/act", "", 403, None),
        ("token/lead", "/api/v1/act", "", 404, "no_such_request"),
    ],
)
def test_a_link_confirms_as_whoever_opens_it(
    identity: str, path: str, name: str, status: int, code: str | None
) -> None:
    requests = asked(SILENCE, ADA)
    body = {"link": link_of(requests, identity), **({"act": "confirm"} if path != PATH else {})}
    ((found_status, found),), log = confirmed(requests, (path, body, name))
    assert found_status == status, found
    assert code is None or found["error"]["code"] == code, found
    assert bool(log.records) == (status == 202)
    if status == 202:
        assert found["by"] == "token/ada, confirmed by token/bob"
        proofs = {value for each in log.records for header, value in each.headers if header == PROOF_HEADER}
        assert proofs == {b"signed link" if path != PATH else b"issued token"}


@pytest.mark.parametrize(
    ("link", "status"),
    [
        ("", 401),
        ("x.y", 401),
        ("x" * 5_000, 400),
        (7, 400),
        (link_of(asked(SILENCE, ADA))[:-1], 401),
        (link_of(asked(SILENCE, ADA), ends_ms=WALL_MS), 410),
        (link_of(asked(SILENCE, ADA), digest="0" * 24), 409),
        (link_of(asked({**SILENCE, "rule": "stalled"}, ADA)), 404),
        (ActLinks(KEY).token(offer_of(an_alert())), 401),
    ],
)
def test_a_link_of_another_kind_time_or_request_confirms_nothing(link: object, status: int) -> None:
    ((found, _),), log = confirmed(asked(SILENCE, ADA), (PATH, {"link": link}, "bob"))
    assert found == status
    assert not log.records


def test_a_link_of_actions_confirms_what_it_showed_alone() -> None:
    """Of actions there is one request at a time: another one has its id."""
    shown, now = asked(LIVE, ADA), asked({**LIVE, "comment": "and more"}, ADA)
    ((status, found),), log = confirmed(now, (PATH, {"link": link_of(shown)}, "bob"))
    assert (status, found["error"]["code"]) == (409, "request_changed")
    assert not log.records


def test_a_link_that_confirms_acts_on_no_alert_and_the_other_way_round() -> None:
    requests = asked(SILENCE, ADA)
    confirm = {"link": link_of(requests, "token/bob"), "act": "ack", "hours": 1}
    alert = {"link": ActLinks(KEY).token(offer_of(an_alert())), "act": "confirm"}
    found, log = confirmed(requests, ("/api/v1/act", confirm, ""), ("/api/v1/act", alert, ""))
    assert [status for status, _ in found] == [401, 401]
    assert not log.records


def test_what_has_ended_is_confirmed_by_nobody() -> None:
    """A second earlier it is; a link has an end of its own, and the same one."""
    ended, going_on = (asked(SILENCE, ADA, until_ms=WALL_MS + more_ms) for more_ms in (0, 1_000))
    for body in ({"id": id_of(ended)}, {"link": link_of(ended, ends_ms=WALL_MS + 9_000)}):
        ((status, found),), log = confirmed(ended, (PATH, body, "bob"))
        assert (status, found["error"]["code"], log.records) == (404, "no_such_request", [])
    ((status, _),), _ = confirmed(going_on, (PATH, {"id": id_of(going_on)}, "bob"))
    assert status == 202


def test_whoever_has_lost_the_scope_or_the_text_of_a_token_since_confirms_nothing() -> None:
    """The token is what it is when it is shown: issued anew with less, or rotated, which leaves who asked in force."""
    requests, less = asked(SILENCE, ADA), {**TOKENS, **issued("bob", ("read",), person="bob@example.com")}
    rotated = {**TOKENS, **rotation_of("bob"), **rotation_of("ada")}
    for filed, name, status in ((less, "bob", 403), (rotated, "bob", 401), (rotated, "bob, rotated", 202)):
        log = Kept()

        async def work(client: Client, name: str = name) -> int:
            return (await post(client, PATH, {"id": id_of(requests)}, bearer(name)))[0]

        assert served(None, work, wall_ms=WALL_MS, controls=log, filed=filed, requests=requests) == status
        assert bool(log.records) == (status == 202)


def rotation_of(name: str) -> dict[bytes, ControlEvent]:
    """The record of a token after a rotation: its text is `text_of("NAME, rotated")`."""
    key = f"token/{name}".encode()
    change = {"name": name, "rotate": True, "hash": hash_of(text_of(f"{name}, rotated"))}
    event = decode("controls", token_record(change, {key: TOKENS[key]}, "test", WALL_MS).value, (), WALL_MS)
    assert isinstance(event, ControlEvent), event
    return {key: event}


def test_a_link_of_another_key_confirms_nothing() -> None:
    requests = asked(SILENCE, ADA)
    found, log = confirmed(requests, (PATH, {"link": link_of(requests)}, "bob"), key=KEY.swapcase())
    assert ([status for status, _ in found], log.records) == ([401], [])


def test_without_a_key_no_link_is_taken() -> None:
    requests = asked(SILENCE, ADA)
    ((status, found),), _ = confirmed(requests, (PATH, {"link": link_of(requests)}, "bob"), key=None)
    assert (status, found["error"]["code"]) == (403, "links_off")


def test_other_fields_are_refused() -> None:
    requests = asked(SILENCE, ADA)
    ((status, _),), log = confirmed(requests, (PATH, {"id": id_of(requests), "by": "token/bob"}, "ada"))
    assert (status, log.records) == (400, [])


@pytest.mark.parametrize(
    ("control", "is_theirs"),
    [
        (STOP, True),
        ({**STOP, "team": "speech"}, False),
        ({k: v for k, v in STOP.items() if k != "team"}, False),
        (SILENCE, False),
        (LIVE, False),
        ({"kind": "prices", "prices": []}, False),
    ],
)
def test_who_is_bound_to_a_team_sees_and_confirms_what_is_of_it(
    control: dict[str, Any], is_theirs: bool
) -> None:
    requests, log = asked(control, ADA), Kept()

    async def work(client: Client) -> tuple[Any, int]:
        listed = await client.get(PATH, headers=bearer("lead"))
        return listed, (await post(client, PATH, {"id": id_of(requests)}, bearer("lead")))[0]

    listed, status = served(None, work, wall_ms=WALL_MS, controls=log, filed=TOKENS, requests=requests)
    assert (bool(listed["requests"]), status) == (is_theirs, 202 if is_theirs else 404)
    assert bool(log.records) == is_theirs


@pytest.mark.parametrize(
    ("caller", "whose"),
    [
        (Caller("::1", "token/ops"), "token/ops"),
        (Caller("::1", "token/ci", person="token/ops"), "token/ops"),
        (Caller("::1", "token/ada-laptop", person="ada@example.com"), "ada@example.com"),
        (Caller("::1", "person/ada@example.com"), "ada@example.com"),
        (Caller("::1", "web.token"), ""),
    ],
)
def test_a_token_of_which_nobody_says_whose_it_is_is_its_issuers(caller: Caller, whose: str) -> None:
    """An admin issued oneself a second person. Rotating it changes nothing of that."""
    asked_for = {"name": "second", "hash": "0" * 64, "scopes": ["act"]}
    record = token_record(asked_for, {}, caller.token, WALL_MS, caller.issues_for)
    event = decode("controls", record.value, (), WALL_MS)
    assert isinstance(event, ControlEvent), event
    assert issued_token(event).person == whose
    again = {"name": "second", "rotate": True, "hash": "1" * 64}
    rotated = decode(
        "controls",
        token_record(again, {record.key: event}, "token/second", WALL_MS, "token/second").value,
        (),
        WALL_MS,
    )
    assert isinstance(rotated, ControlEvent), rotated
    assert issued_token(rotated).person == whose


def test_the_api_says_whose_what_it_issues_is() -> None:
    asked_for = {"name": "second", "hash": "0" * 64, "scopes": ["act"]}
    ((status, found),), log = confirmed({}, ("/api/v1/tokens", asked_for, "boss"))
    assert status == 202, found
    assert [json.loads(each.value)["person"] for each in log.records] == ["token/boss"]
