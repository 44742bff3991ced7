"""The demo's screens: plain lines for pipes, the live table of `trainfare top` on a terminal.

It ends when the user quits, or when it is stopped.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
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
_LOOK_EVERY_S: Final = 0.5
#: Lines wait for so long for what happened before them: a message and the figures come after what they are about.
_HELD_MS: Final = 3_000
_COLUMNS: Final = re.compile(" {3,}")


class PlainScreen:
    """A line every few seconds, and one for each alert, in the order of the fleet's time."""

    def __init__(self, say: Callable[[str], None], speed: float) -> None:
        self._say = say
        self._speed = speed
        self._held: list[tuple[int, int, str]] = []  # a heap, by time
        self._count = 0

    def received(self, message: Received) -> None:
        """Show an alert that arrived."""
        self._hold(lines.at_ms(message), lines.delivered(message))

    def happens(self, time_ms: int, what: str) -> None:
        """Show what somebody did."""
        self._hold(time_ms, f"{lines.clock(time_ms)}  {what}")

    def _hold(self, time_ms: int, line: str) -> None:
        self._count += 1
        heapq.heappush(self._held, (time_ms, self._count, line))

    def _release(self, until_ms: float) -> None:
        """Write what is held of up to an instant."""
        while self._held and self._held[0][0] <= until_ms:
            self._say(heapq.heappop(self._held)[2])

    async def show(self, stage: Stage) -> None:
        """Write until cancelled."""
        self._say(lines.pace(self._speed, stage.now_ms()))
        self._say(f"page: {stage.url}")
        if stage.token_path is not None:
            self._say(f"its token, for SQL over HTTP: in {stage.token_path}")
        releasing = asyncio.ensure_future(self._release_in_order(stage))
        try:
            await self._show_figures(HttpSource(stage.url))
        finally:
            releasing.cancel()
            self._release(math.inf)

    async def _release_in_order(self, stage: Stage) -> None:
        while True:
            self._release(stage.now_ms() - _HELD_MS * self._speed)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _show_figures(self, source: HttpSource) -> None:
        while True:
            try:
                snapshot = await asyncio.to_thread(source.fetch)
            except SourceError as fault:
                self._say(f"no figures: {visible(str(fault))}")
            else:
                if not snapshot.burn.jobs_live or not snapshot.as_of_ms:
                    await asyncio.sleep(_FIRST_EVERY_S)
                    continue
                self._hold(snapshot.as_of_ms, lines.burning(snapshot))
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
            # Alone in its line nothing stands above or below it: the room is for the sentence.
            newest = _COLUMNS.sub("  ", self._delivered[-1]) if self._delivered else ""
            delivered = f"delivered: {newest}" if newest else ""
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
