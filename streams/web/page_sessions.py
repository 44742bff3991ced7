"""The page, and the cookie that it gets for a token: in no address, a token is in no log of a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aiohttp import web

from streams.web.assets import Asset
from streams.web.encode import NOT_KEPT
from streams.web.errors import ApiError
from streams.web.http_protocol import hold_back
from streams.web.security import COOKIE, RequestGuard


class PageParts(Protocol):
    """What the page is made from."""

    @property
    def guard(self) -> RequestGuard:
        """Who may do what."""
        ...

    @property
    def assets(self) -> Mapping[str, Asset]:
        """The files of the page."""
        ...


class PageSessions:
    """The handlers."""

    def __init__(self, parts: PageParts) -> None:
        self._parts = parts

    async def page(self, request: web.Request) -> web.Response:
        """The page; a token in its address becomes a cookie.

        Raises:
            HTTPSeeOther: To the page without the token.
        """
        if "token" in request.query:
            # So that the token stays in no address bar or history, be it right or wrong: then the page says so.
            leave = web.HTTPSeeOther("/", headers=NOT_KEPT)
            try:
                self._begin(request, request.query["token"], leave)
            except ApiError as refused:
                leave = web.HTTPSeeOther(f"/#token-{refused.code}", headers=NOT_KEPT)
                if refused.delay_s:
                    await hold_back(request, refused.delay_s)
            raise leave
        return self._parts.assets["index.html"].answer(request)

    async def begin(self, request: web.Request) -> web.Response:
        """Let a browser in by a cookie, for a token in the header: in no address, it is in no log of a proxy."""
        _, _, token = request.headers.get("Authorization", "").partition(" ")
        response = web.json_response({}, headers=NOT_KEPT)
        if token.strip():
            self._begin(request, token.strip(), response)
        return response

    def _begin(
        self, request: web.Request, token: str, response: web.StreamResponse | web.HTTPException
    ) -> None:
        guard, remote = self._parts.guard, request.remote or ""
        session = guard.session(token, remote)
        if session is not None:
            response.set_cookie(
                COOKIE,
                session.cookie,
                httponly=True,
                samesite="Strict",
                secure=guard.is_private(remote, request.headers, is_tls=request.secure),
                path="/",
                max_age=guard.session_s,
            )
