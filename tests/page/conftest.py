"""A browser, the scripted meter, and a page that minds what the browser complains of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.page.server import Script, Server

CHROMIUM = Path("/usr/bin/chromium")
REQUIRE_BROWSER = os.environ.get("TRAINFARE_REQUIRE_BROWSER") == "1"


@dataclass
class Watched:
    """A page and all that went wrong on it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    # What a test provokes: the browser itself logs a refused request.
    provoked: tuple[str, ...] = ()

    def check(self) -> None:
        wrong = [each for each in self.errors if not any(word in each for word in self.provoked)]
        assert not wrong
        host = self.page.url.split("/")[2] if "//" in self.page.url else ""
        beyond = [url for url in self.requests if url.split("/")[2] != host]
        assert not beyond, "the page asked another host"


Open = Callable[..., Watched]


@pytest.fixture(scope="package")  # its event loop must not outlive these tests: others have their own
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        reason = f"no browser: {CHROMIUM} is not there (Debian's package chromium)"
        if REQUIRE_BROWSER:
            pytest.fail(f"TRAINFARE_REQUIRE_BROWSER=1, but {reason}")
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # Tests run as root in containers, where Chromium has no sandbox.
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Where all pages are opened: a context of its own would start one more process of the browser for each page.

    A blank page stays open, so that the process does.
    """
    context = browser.new_context()
    context.set_default_timeout(10_000)
    context.new_page()
    yield context
    context.close()


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def server(script: Script) -> Iterator[Server]:
    with Server(script) as running:
        yield running


@pytest.fixture
def opened(context: BrowserContext) -> Iterator[Open]:
    """Open a page at any address; at the end nothing may have gone wrong on it, and the browser forgets it."""
    pages: list[Watched] = []

    def open_page(
        url: str, *, width: int = 1400, scheme: str = "light", calm: bool = False, clipboard: bool = False
    ) -> Watched:
        if clipboard:
            context.grant_permissions(["clipboard-read", "clipboard-write"])
        watched = Watched(context.new_page())
        pages.append(watched)
        page = watched.page
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce" if calm else "no-preference",
        )
        page.on("console", lambda message: _console(watched, message.type, message.text))
        page.on("pageerror", lambda error: watched.errors.append(f"uncaught: {error}"))
        page.on("dialog", lambda dialog: watched.errors.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: watched.requests.append(request.url))
        page.goto(url)
        return watched

    yield open_page
    try:
        for watched in pages:
            watched.check()
    finally:
        for watched in pages:
            watched.page.close()
        context.clear_cookies()
        context.clear_permissions()


def _console(watched: Watched, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        watched.errors.append(f"console {kind}: {text}")


@pytest.fixture
def board(server: Server, opened: Open) -> Callable[..., Watched]:
    """Open the scripted meter's page and wait for its first figures."""

    def open_board(path: str = "/", **how: object) -> Watched:
        watched = opened(server.url + path, **how)
        watched.page.wait_for_selector("#link[data-state=live]")
        return watched

    return open_board
