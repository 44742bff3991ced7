"""The two screens of the demonstration: what they say, and that they end when they are told to."""

from __future__ import annotations

import asyncio
import webbrowser
from pathlib import Path

import pytest

from streams.cli import demo_screens
from streams.cli.demo import between_words
from streams.cli.demo_screens import PlainScreen, TerminalScreen
from streams.cli.top.terminal import TopApp
from streams.demo.run import Stage
from streams.notify.webhooks.receiver import Received
from tests.cli.command import NOBODY

AT_MS = 1_763_650_720_000
LOCAL_TOKEN = "the-token-of-this-demonstration"
LINK = f"http://{NOBODY}/#token={LOCAL_TOKEN}"
STAGE = Stage(f"http://{NOBODY}", lambda: AT_MS, LINK, Path("demo") / "token")
MESSAGE = Received(
    "msg_1",
    "alert.firing",
    "2025-11-20T14:58:40Z",
    {
        "rule": "burn_fast",
        "severity": "page",
        "status": "firing",
        "subject": {"kind": "job", "name": "llm-7b"},
        "owner": "ada",
        "summary": "llm-7b burns $896.05/h",
        "started_ms": AT_MS,
    },
)
DELIVERED = "14:58:40  page      Runaway burn                   to ada        llm-7b burns $896.05/h"


@pytest.mark.parametrize("columns", [0, 40, 80, 200])
def test_a_line_is_broken_between_words(columns: int) -> None:
    line = f"{DELIVERED}, $304/h over 15 min; see {LINK}"
    shown = between_words(line, columns)
    assert shown.split() == line.split()
    longest = max(len(word) for word in line.split()) + 4
    assert all(len(each) <= max(columns, longest) for each in shown.split("\n"))
    assert (shown == line) == (columns == 200)


async def for_a_while(screen: PlainScreen | TerminalScreen, seconds: float) -> None:
    """Show, tell two things, and take the screen away."""
    showing = asyncio.ensure_future(screen.show(STAGE))
    await asyncio.sleep(seconds)
    screen.happens(AT_MS, "ada scales llm-7b")
    screen.received(MESSAGE)
    await asyncio.sleep(seconds)
    showing.cancel()
    await asyncio.gather(showing, return_exceptions=True)
    assert showing.cancelled()


def test_lines_say_what_happens_even_where_no_figures_come() -> None:
    said: list[str] = []
    asyncio.run(for_a_while(PlainScreen(said.append, 60), 0.2))
    assert said[0].startswith("simulated fleet, 60x time")
    assert said[1] == f"page: http://{NOBODY}"
    assert said[2] == f"its token, for SQL over HTTP: in {Path('demo') / 'token'}"
    assert said[3].startswith(f"no figures: nobody answers at http://{NOBODY}")
    assert said[4:] == ["14:58:40  ada scales llm-7b", DELIVERED]
    assert LOCAL_TOKEN not in "".join(said), "a pipe may be a log"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No terminal; the notes above the table, each time that it would be drawn."""
    notes: list[str] = []

    async def shown(app: TopApp) -> None:
        await app.ended.wait()

    monkeypatch.setattr(TopApp, "run_async", shown)
    monkeypatch.setattr(TopApp, "draw", lambda app: notes.append(app.view.note))
    return notes


def test_the_terminal_shows_it_and_keeps_what_was_delivered(drawn: list[str]) -> None:
    said: list[str] = []
    asyncio.run(for_a_while(TerminalScreen(said.append, 60, browser=False), 0.1))
    happened = "simulated, 60x time · 14:58:40  ada scales llm-7b\n"
    newest = "14:58:40  page  Runaway burn  to ada  llm-7b burns $896.05/h"  # alone in its line: no columns
    assert drawn == [happened, f"{happened}delivered: {newest}"]
    assert said == [f"page: {LINK}", DELIVERED], "the link with the token is for who sits there"


def test_to_quit_the_table_ends_the_show(monkeypatch: pytest.MonkeyPatch) -> None:
    async def quits(app: TopApp) -> None:
        """Returns at once, as after `q`."""

    monkeypatch.setattr(TopApp, "run_async", quits)
    asyncio.run(asyncio.wait_for(TerminalScreen(print, 60, browser=False).show(STAGE), 20))


def test_what_comes_before_the_table_is_there_is_kept() -> None:
    said: list[str] = []
    screen = TerminalScreen(said.append, 60, browser=False)
    screen.received(MESSAGE)
    screen.happens(AT_MS, "nobody looks yet")
    assert said == []


@pytest.mark.parametrize(
    ("browser", "opened"),
    [
        (webbrowser.BackgroundBrowser("firefox"), ["http://x"]),
        (webbrowser.GenericBrowser("lynx"), []),
        (None, []),
    ],
)
def test_a_browser_is_opened_unless_it_would_take_the_terminal(
    monkeypatch: pytest.MonkeyPatch, browser: webbrowser.BaseBrowser | None, opened: list[str]
) -> None:
    asked: list[str] = []

    def get() -> webbrowser.BaseBrowser:
        if browser is None:
            raise webbrowser.Error("could not locate runnable browser")
        return browser

    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setattr(webbrowser, "open", asked.append)
    demo_screens.open_page("http://x")
    assert asked == opened


def test_lines_are_in_the_order_of_the_fleets_time() -> None:
    said: list[str] = []
    screen = PlainScreen(said.append, 60)

    async def show() -> None:
        showing = asyncio.ensure_future(screen.show(STAGE))
        await asyncio.sleep(0)
        screen.happens(AT_MS + 10 * 60_000, "ada scales it back")
        screen.received(MESSAGE)  # of ten minutes before
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)

    asyncio.run(show())
    assert said[-2:] == [DELIVERED, "15:08:40  ada scales it back"]
