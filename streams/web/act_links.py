"""POST /api/v1/act: acts on one alert by the signed link of a message, without a token of the worker.

It is open to whoever has such a link, and to nobody where no key is set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeVar

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.durations import HOUR_MS
from streams.notify.act_links import (
    HOURS_MAX,
    TOKEN_MAX_BYTES,
    ActLinks,
    Confirmation,
    InvalidLinkError,
    LinkEndedError,
    Offer,
)
from streams.web.controls import ControlEndpoint, accepted
from streams.web.errors import ApiError
from streams.web.http_protocol import trust
from streams.web.request_body import json_body
from streams.web.scopes import Caller, Scope

BODY_MAX_BYTES: Final = 2 * TOKEN_MAX_BYTES
#: Whose act it is, where controls say by whom.
BY: Final = "signed link"
_Opened = TypeVar("_Opened", Offer, Confirmation)
_EXAMPLE: Final = '{"link": "...", "act": "ack", "hours": 4}'


class ActRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request."""

    link: Annotated[str, Meta(max_length=TOKEN_MAX_BYTES)]
    act: Literal["ack", "silence", "planned", "confirm"]
    hours: Annotated[int, Meta(ge=1, le=HOURS_MAX)] | UnsetType = UNSET  # of all but `confirm`
    comment: Annotated[str, Meta(max_length=1_000)] = ""


class ActLinkEndpoint:
    """The endpoint of one server.

    Args:
        links: What opens links; None: no key is set.
        controls: Where records are written, and whose limits hold.
        refuse: Counts a wrong link of an address, and makes what answers it.
        wall_ms: Log time, ms since 1970.
        named: Whoever shows the issued token of this name, from an address; None: there is none in force.
    """

    def __init__(
        self,
        links: ActLinks | None,
        controls: ControlEndpoint,
        refuse: Callable[[str, str], ApiError],
        wall_ms: Callable[[], int],
        named: Callable[[str, str], Caller | None],
    ) -> None:
        self._links = links
        self._controls = controls
        self._refuse = refuse
        self._wall_ms = wall_ms
        self._named = named

    async def answer(self, request: web.Request, caller: Caller) -> web.Response:
        """Write the record of one act.

        Raises:
            ApiError: The link is wrong or has ended, its alert does not allow the act, or Kafka did not take the record.
        """
        asked = await json_body(request, BODY_MAX_BYTES, ActRequest, _EXAMPLE)
        if asked.act == "confirm":
            found = self.confirmation(asked.link, caller)
            trust(request)
            return accepted(await self._confirm(found, caller))
        if isinstance(asked.hours, UnsetType):
            raise ApiError(400, "hours: expected 1 to 24", field="hours")
        now_ms = self._wall_ms()
        offer = self._opened(asked.link, caller, lambda links: links.opened(asked.link, now_ms))
        trust(request)
        if asked.act not in offer.acts:
            raise ApiError(400, f"act: of this alert it is one of {', '.join(offer.acts)}", field="act")
        until_ms = now_ms + asked.hours * HOUR_MS
        record = offer.record(asked.act, until_ms, asked.comment)
        written = await self._controls.write(
            record, Caller(caller.address, BY, frozenset({Scope.ACT}), proven_by=BY)
        )
        return accepted({**written, "until_ms": until_ms})

    def confirmation(self, link: object, caller: Caller) -> Confirmation:
        """What the link of a message confirms.

        Raises:
            ApiError: The link is wrong or has ended.
        """
        if not isinstance(link, str) or len(link) > TOKEN_MAX_BYTES:
            raise ApiError(400, "link: expected what stands behind `#confirm=` in a message", field="link")
        return self._opened(link, caller, lambda links: links.confirmed(link, self._wall_ms()))

    async def _confirm(self, found: Confirmation, caller: Caller) -> dict[str, Any]:
        """Confirm as the identity whose link it is.

        Raises:
            ApiError: It is nobody's in particular, whose it is has ended, or may not confirm it.
        """
        if not found.identity:
            raise ApiError(401, "this link says what, and not who: sign in, or show an issued token", "who")
        who = self._named(found.identity, caller.address)
        if who is None:
            raise ApiError(403, f"{found.identity} has ended; trainfare tokens list shows which have", "who")
        who = replace(who, proven_by=BY)
        self._controls.check_open(who)
        return await self._controls.confirm(found.request, who, found.digest)

    def _opened(self, link: str, caller: Caller, opened: Callable[[ActLinks], _Opened]) -> _Opened:
        if self._links is None:
            raise ApiError(403, "this worker takes no signed links; set web.act_link_key", "links_off")
        try:
            return opened(self._links)
        except LinkEndedError as fault:
            raise ApiError(410, str(fault), "link_ended") from None
        except InvalidLinkError as fault:
            raise self._refuse(caller.address, str(fault)) from None
