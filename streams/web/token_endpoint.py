"""Issued access tokens over HTTP: list, issue, rotate, revoke; who the caller is; what a source has read.

No answer has a hash of a token, and no request its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from schemas.escaping import visible
from schemas.events import ControlEvent
from schemas.validate_sources import SOURCE
from schemas.validate_tokens import BOUNDS
from streams.web.act_links import ActLinkEndpoint
from streams.web.changes import PARAMETERS, changes
from streams.web.control_record import FieldError
from streams.web.controls import BODY_MAX_BYTES, ControlEndpoint, accepted
from streams.web.encode import json_answer
from streams.web.errors import ApiError
from streams.web.middleware import CALLER
from streams.web.parameters import parameters
from streams.web.prices import PriceEndpoint
from streams.web.request_body import json_body
from streams.web.scopes import Caller, Scope, TokensNotReadError
from streams.web.security import RequestGuard, tokens_not_read
from streams.web.store_reader import StoreReader
from streams.web.token_records import TokenConflictError, token_record
from streams.web.token_uses import TokenUse


class TokenParts(Protocol):
    """What the answers are made from."""

    @property
    def guard(self) -> RequestGuard:
        """Who may do what."""
        ...

    @property
    def prices(self) -> PriceEndpoint:
        """What publishes prices."""
        ...

    @property
    def controls(self) -> ControlEndpoint:
        """What writes records of `controls`."""
        ...

    @property
    def act_links(self) -> ActLinkEndpoint:
        """What opens links of messages."""
        ...

    @property
    def estimates(self) -> StoreReader:
        """What reads the store beside the page."""
        ...


class TokenEndpoint:
    """The handlers."""

    def __init__(self, parts: TokenParts) -> None:
        self._parts = parts

    async def whoami(self, request: web.Request) -> web.Response:
        """The identity of the caller, and what it may do."""
        parameters(request, set())
        caller: Caller = request[CALLER]
        return json_answer(
            {
                "token": caller.token,
                "is_issued": caller.is_issued,
                "scopes": [each for each in Scope if each in caller.scopes],
                **_bounds(caller.bounds._asdict()),
                "expires_ms": caller.expires_ms,
                "address": caller.address,
                "proven_by": caller.proof,
                "person": caller.person,
                "team_bounds": {scope: sorted(teams) for scope, teams in caller.team_bounds.items()},
                "session_until_ms": caller.until_ms,
            }
        )

    async def listed(self, request: web.Request) -> web.Response:
        """Every issued token, without its hash; where the store cannot say, the last uses are those of this worker.

        Raises:
            ApiError: They are not read yet.
        """
        parameters(request, set())
        uses, whose = self._parts.guard.issued.uses, "all workers"
        try:
            used = await uses.of_all_workers(self._parts.estimates)
        except ApiError:
            used, whose = (
                dict(uses.of_this_worker()),
                "this worker, since its start: the store does not answer",
            )
        tokens = [_shown(each, used.get(each.name)) for each in self._standing().values()]
        return json_answer({"tokens": tokens, "last_used_of": whose})

    async def write(self, request: web.Request) -> web.Response:
        """Issue, rotate or revoke a token.

        Raises:
            ApiError: It was refused, or the log did not take it.
        """
        controls, caller = self._parts.controls, request[CALLER]
        controls.check_open(caller)
        asked = await json_body(request, BODY_MAX_BYTES, dict[str, Any], '{"name": "vision", "hash": "..."}')
        try:
            record = token_record(asked, self._standing(), caller.token, controls.now_ms(), caller.issues_for)
        except FieldError as fault:
            where = f"{visible(fault.field)}: " if fault.field else ""
            raise ApiError(400, f"{where}{visible(str(fault))}", field=visible(fault.field) or None) from None
        except TokenConflictError as fault:
            raise ApiError(409, visible(str(fault)), "token_conflict", field="name") from None
        return accepted(await controls.append(record, caller))

    async def changes(self, request: web.Request) -> web.Response:
        """A page of the audit trail.

        Raises:
            ApiError: A parameter is wrong, or the store cannot say.
        """
        return json_answer(await changes(self._parts.estimates, parameters(request, {*PARAMETERS})))

    async def waiting(self, request: web.Request) -> web.Response:
        """What waits for a second person."""
        parameters(request, set())
        found = [
            {"id": each.id, "control": each.control, "by": each.by, "until_ms": each.until_ms}
            for each in self._parts.controls.waiting(request[CALLER])
        ]
        return json_answer({"requests": found})

    async def confirm(self, request: web.Request) -> web.Response:
        """Confirm what another person has asked for.

        Raises:
            ApiError: It was refused, or the log did not take it.
        """
        controls, caller = self._parts.controls, request[CALLER]
        controls.check_open(caller)
        asked = await json_body(request, BODY_MAX_BYTES, dict[str, Any], '{"id": "..."}')
        if unknown := sorted(asked.keys() - {"id", "link"}):
            raise ApiError(400, f"{visible(unknown[0])}: expected id, or the link of a message", field="id")
        if "link" not in asked:
            return accepted(await controls.confirm(asked.get("id"), caller))
        offer = self._parts.act_links.confirmation(asked["link"], caller)
        return accepted(await controls.confirm(offer.request, caller, offer.digest))

    async def publish_prices(self, request: web.Request) -> web.Response:
        """Publish revisions of prices."""
        return await self._parts.prices.answer(request, request[CALLER])

    async def source(self, request: web.Request) -> web.Response:
        """Write what a source has read: no other kind of control.

        Raises:
            ApiError: It is of another kind, was refused, or the log did not take it.
        """
        controls, caller = self._parts.controls, request[CALLER]
        controls.check_open(caller)
        asked = await json_body(request, BODY_MAX_BYTES, dict[str, Any], '{"kind": "source", ...}')
        if asked.get("kind") != SOURCE:
            raise ApiError(403, f"kind: this path takes {SOURCE} alone; POST /api/v1/controls takes others", field="kind")  # fmt: skip
        return accepted(await controls.write_source(asked, caller))

    def _standing(self) -> Mapping[bytes, ControlEvent]:
        try:
            return self._parts.guard.issued.standing()
        except TokensNotReadError:
            raise tokens_not_read() from None


def _bounds(value: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: list(value.get(name, ())) for name in BOUNDS}


def _shown(event: ControlEvent, used: TokenUse | None) -> dict[str, Any]:
    value: Mapping[str, Any] = event.value
    return {
        "name": event.name,
        "scopes": list(value.get("scopes", ())),
        **_bounds(value),
        "changed_ms": event.time_ms,
        "by": value.get("by", ""),
        "comment": value.get("comment", ""),
        "person": value.get("person", ""),
        "expires_ms": value.get("expires_ms"),
        "former_until_ms": value.get("former_until_ms"),
        "revoked": bool(value.get("revoked", False)),
        "last_used_ms": None if used is None else used.at_ms,
        "last_used_from": "" if used is None else used.address,
    }
