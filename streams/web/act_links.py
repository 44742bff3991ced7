"""POST /api/v1/act: acts on one alert by the signed link of a message, without a token of the worker.

It is open to whoever has such a link, and to nobody where no key is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import Meta, Struct

from schemas.durations import HOUR_MS
from streams.notify.act_links import HOURS_MAX, TOKEN_MAX_BYTES, ActLinks, InvalidLinkError, LinkEndedError
from streams.web.controls import ControlEndpoint, accepted
from streams.web.errors import ApiError
from streams.web.http_protocol import trust
from streams.web.request_body import json_body
from streams.web.scopes import Caller, Scope

BODY_MAX_BYTES: Final = 2 * TOKEN_MAX_BYTES
#: Whose act it is, where controls say by whom.
BY: Final = "signed link"
_EXAMPLE: Final = '{"link": "...", "act": "ack", "hours": 4}'


class ActRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request."""

    link: Annotated[str, Meta(max_length=TOKEN_MAX_BYTES)]
    act: Literal["ack", "silence", "planned"]
    hours: Annotated[int, Meta(ge=1, le=HOURS_MAX)]
    comment: Annotated[str, Meta(max_length=1_000)] = ""


class ActLinkEndpoint:
    """The endpoint of one server.

    Args:
        links: What opens links; None: no key is set.
        controls: Where records are written, and whose limits hold.
        refuse: Counts a wrong link of an address, and makes what answers it.
        wall_ms: Log time, ms since 1970.
    """

    def __init__(
        self,
        links: ActLinks | None,
        controls: ControlEndpoint,
        refuse: Callable[[str, str], ApiError],
        wall_ms: Callable[[], int],
    ) -> None:
        self._links = links
        self._controls = controls
        self._refuse = refuse
        self._wall_ms = wall_ms

    async def answer(self, request: web.Request, caller: Caller) -> web.Response:
        """Write the record of one act.

        Raises:
            ApiError: The link is wrong or has ended, its alert does not allow the act, or Kafka did not take the record.
        """
        if self._links is None:
            raise ApiError(403, "this worker takes no signed links; set web.act_link_key", "links_off")
        asked = await json_body(request, BODY_MAX_BYTES, ActRequest, _EXAMPLE)
        now_ms = self._wall_ms()
        try:
            offer = self._links.opened(asked.link, now_ms)
        except LinkEndedError as fault:
            raise ApiError(410, str(fault), "link_ended") from None
        except InvalidLinkError as fault:
            raise self._refuse(caller.address, str(fault)) from None
        trust(request)
        if asked.act not in offer.acts:
            raise ApiError(400, f"act: of this alert it is one of {', '.join(offer.acts)}", field="act")
        until_ms = now_ms + asked.hours * HOUR_MS
        record = offer.record(asked.act, until_ms, asked.comment)
        written = await self._controls.write(
            record, Caller(caller.address, BY, frozenset({Scope.ACT}), proven_by="signed link")
        )
        return accepted({**written, "until_ms": until_ms})
