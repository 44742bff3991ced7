"""Waits until a page has all that it asks for."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, Request

#: Nothing was asked for in so long, and nothing is waited for: the page has all that it asks for.
_QUIET_MS: Final = 1_200
_STEP_MS: Final = 200
_WITHIN_MS: Final = 240_000


class Asked:
    """The requests of a page that have no answer yet, but for the stream, which never ends."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: set[Request] = set()
        page.on("request", self._add)
        page.on("requestfinished", lambda request: self._open.discard(request))
        page.on("requestfailed", lambda request: self._open.discard(request))

    def _add(self, request: Request) -> None:
        if "/api/v1/stream" not in request.url:
            self._open.add(request)

    def show(self, address: str) -> None:
        """Open a page, and wait until it has drawn all that it asks for.

        Raises:
            TimeoutError: Something has no answer for minutes.
        """
        self._page.evaluate("address => { location.hash = `#/${address}`; }", address)
        quiet_ms = 0
        for _ in range(_WITHIN_MS // _STEP_MS):
            self._page.wait_for_timeout(_STEP_MS)
            quiet_ms = 0 if self._open else quiet_ms + _STEP_MS
            if quiet_ms >= _QUIET_MS:
                return
        waits = [each.url for each in self._open]
        raise TimeoutError(f"{address}: no answer within {_WITHIN_MS / 1_000:.0f} s of {waits}")
