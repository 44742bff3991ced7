"""The demo's screens: plain lines for pipes, the live table of `trainfare top` on a terminal.

It ends when the user quits, or when it is stopped.
"""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Callable
from typing import Final

from schemas.escaping import visible
from streams.cli import demo_lines as lines
from streams.cli.top.figures import SourceError
from streams.cli.top.sources import HttpSource
from streams.cli.top.terminal import TopApp
from streams.demo.run import Stage
from streams.notify.webhooks.receiver import Received

_EVERY_S: Final = 5.0
_FIRST_EVERY_S: Final = 0.3


class PlainScreen:
    """A line every few seconds, and one for each alert."""

    def __init__(self, say: Callable[[str], None], speed: float) -> None:
        self._say = say
        self._speed = speed

    def received(self, message: Received) -> None:
        """Show an alert that arrived."""
        self._say(lines.delivered(message))

    def happens(self, time_ms: int, what: str) -> None:
        """Show what somebody did."""
        self._say(f"{lines.clock(time_ms)}  {what}")

    async def show(self, stage: Stage) -> None:
        """Write until cancelled."""
        self._say(lines.pace(self._speed, stage.now_ms()))
        self._say(f"page: {stage.url}")
        if stage.token_path is not None:
            self._say(f"its token, for SQL over HTTP: in {stage.token_path}")
        source = HttpSource(stage.url)
        while True:
            try:
                snapshot = await asyncio.to_thread(source.fetch)
            except SourceError as fault:
                self._say(f"no figures: {visible(str(fault))}")
            else:
                if not snapshot.burn.jobs_live:
                    await asyncio.sleep(_FIRST_EVERY_S)
                    continue
                self._say(lines.burning(snapshot))
            await asyncio.sleep(_EVERY_S)


class TerminalScreen:
    """The live table; deliveries stay on the terminal afterwards."""

    def __init__(self, say: Callable[[str], None], speed: float, *, browser: bool) -> None:
        self._say = say
        self._speed = speed
        self._browser = browser
        self._app: TopApp | None = None
        self._delivered: list[str] = []
        self._happened = ""

    def received(self, message: Received) -> None:
        """Show an alert that arrived: above the table, as a toast would cover the alerts."""
        self._delivered.append(lines.delivered(message))
        self._show_caption()

    def happens(self, time_ms: int, what: str) -> None:
        """Show what somebody did."""
        self._happened = f"{lines.clock(time_ms)}  {what}"
        self._show_caption()

    def _show_caption(self) -> None:
        if self._app is not None:
            delivered = f"delivered: {self._delivered[-1]}" if self._delivered else ""
            self._app.view.note = f"simulated, {self._speed:g}x time · {self._happened}\n{delivered}"
            self._app.draw()

    async def show(self, stage: Stage) -> None:
        """Show until cancelled, or until the user quits."""
        self._say(f"page: {stage.link}")
        note = f"{lines.pace(self._speed, stage.now_ms())} · {stage.url}"
        app = self._app = TopApp(HttpSource(stage.url), note=note, event_time=True)
        # Without the token: other users of the machine can see the arguments of programs.
        if self._browser:
            _ = asyncio.get_running_loop().run_in_executor(None, open_page, stage.url)
        running = asyncio.ensure_future(app.run_async())
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            app.exit()
            await running
            raise
        finally:
            for line in self._delivered:
                self._say(line)


def open_page(url: str) -> None:
    """Open the page, best effort: many machines have no browser, and a text browser would take over the terminal."""
    try:
        if type(webbrowser.get()) is not webbrowser.GenericBrowser:
            webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return
