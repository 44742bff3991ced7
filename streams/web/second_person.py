"""What hurts many waits for a second person: asked for as a record of kind `request`, and written once another identity confirms.

Until then no record of its own kind is in the log, so no worker and no replay judges by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from schemas.durations import HOUR_MS
from schemas.events import ControlEvent
from schemas.validate_requests import ACTIONS, KEY_PREFIX, REQUEST, WaitingRequest, digest_of, waiting_request
from streams.web.control_record import SOURCE, ControlRecord
from streams.web.errors import ApiError
from streams.web.scopes import Caller, whose_of

#: A silence or planned rate that names one of these is no broader than one team.
_NARROW: Final = ("team", "owner", "job_id", "job", "run_id", "experiment")
_STOPPING: Final = frozenset({"suspend", "stop"})
WITHIN_MS: Final = HOUR_MS
#: What an answer says where one person is enough.
SKIPPED: Final = "skipped: this token is shared, which is for one person"


def why_two(asked: Mapping[str, Any]) -> str:
    """Why a control needs a second person, in words; '': it needs none."""
    kind, inner = asked.get("kind"), asked.get("match")
    named = {**asked, **(inner if isinstance(inner, Mapping) else {})}
    # A planned rate quiets the alerts about burns as a silence does.
    if kind in ("silence", "planned") and not any(named.get(field) for field in _NARROW):
        return f"a {'silence' if kind == 'silence' else 'planned rate'} broader than one team"
    if kind == "budget" and _STOPPING & {*_actions(asked.get("actions")), *_actions(asked.get("action"))}:
        return "a budget that suspends or stops jobs"
    return ""


def _actions(given: object) -> set[str]:
    """Every text in what a budget says of its actions, in whatever form it says it."""
    if isinstance(given, str):
        return {given, *given.replace(",", " ").split()}
    if isinstance(given, Mapping):
        return {each for pair in given.items() for part in pair for each in _actions(part)}
    if isinstance(given, list | tuple):
        return {each for part in given for each in _actions(part)}
    return set()


def request_record(
    control: Mapping[str, Any],
    by: str,
    now_ms: int,
    *,
    until_ms: int | None = None,
    confirmed_by: str = "",
    person: str = "",
    subject: str = "",
) -> ControlRecord:
    """The record that asks for a second person; asking again for the same is the same request. Of actions there is one."""
    name = ACTIONS if control.get("kind") == ACTIONS else digest_of([by, control])
    value: dict[str, Any] = {
        "source": SOURCE,
        "id": f"web_{name}_{'done' if confirmed_by else now_ms}",
        "time_ms": now_ms,
        "kind": REQUEST,
        "name": name,
        "control": dict(control),
        "by": by,
        "until_ms": now_ms + WITHIN_MS if until_ms is None else until_ms,
    }
    if confirmed_by:
        value["confirmed_by"] = confirmed_by
    value |= {name: each for name, each in (("person", person), ("subject", subject)) if each}
    return ControlRecord(f"{REQUEST}/{name}".encode(), msgspec.json.encode(value), REQUEST, name, value["id"])


def waiting(requests: Mapping[bytes, ControlEvent], now_ms: int) -> list[WaitingRequest]:
    """The requests that can still be confirmed."""
    found = [waiting_request(each) for each in requests.values()]
    return [each for each in found if not each.confirmed_by and now_ms < each.until_ms]


def both(found: WaitingRequest, caller: Caller) -> str:
    """The two persons, as a record names them."""
    return f"{found.by}, confirmed by {caller.token}"


def none_waits() -> ApiError:
    """What answers where nothing of an id waits."""
    return ApiError(404, "id: no request of this id waits; GET /api/v1/approvals lists them", "no_such_request", field="id")  # fmt: skip


def to_confirm(
    requests: Mapping[bytes, ControlEvent], request_id: object, caller: Caller, now_ms: int
) -> WaitingRequest:
    """The request of an id, which the caller may confirm as far as who it is goes.

    Raises:
        ApiError: There is none, it is too late, or the caller is the one who asked, or nobody in particular.
    """
    key = KEY_PREFIX + (request_id.encode("utf-8", "surrogateescape") if isinstance(request_id, str) else b"")
    event = requests.get(key)
    found = None if event is None else waiting_request(event)
    if found is None or found.confirmed_by or now_ms >= found.until_ms:
        raise none_waits()
    if not caller.is_identity:
        raise ApiError(
            403,
            "a shared token is nobody in particular: sign in, or confirm with an issued one",
            "not_second",
        )
    whose = whose_of(found.person, found.by)
    is_same = bool(found.subject) and caller.subject == found.subject
    if is_same or caller.token == found.by or caller.whose.casefold() == whose.casefold():
        raise ApiError(
            403,
            "whoever asked for it does not confirm it: another person does (a token issued without --person is its issuer's)",
            "not_second",
        )
    return found
