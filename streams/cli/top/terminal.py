"""The live view on a terminal: reads keys, asks the source each second, draws.

The source is handed in, called in a thread, and may be slow or fail.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Console
from rich.live import Live

from streams.cli.faults import described
from streams.cli.top.figures import Source
from streams.cli.top.view import View
from streams.clock import Clock, SystemClock
from streams.threads import Threads

_EVERY_S: Final = 1.0
_KEY: Final = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_NAMES: Final = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down", "\x1b[5~": "pgup", "\x1b[6~": "pgdn",
    "\x1b[H": "home", "\x1b[F": "end", "\x1b[1~": "home", "\x1b[4~": "end", "\x1b": "escape", "\r": "enter",
    "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x03": "ctrl+c",
}  # fmt: skip


def keys_of(typed: str) -> list[str]:
    """The names of keys by what a terminal sends; unknown ones are left out."""
    names = (_NAMES.get(each, each) for each in _KEY.findall(typed))
    return [name for name in names if name.isprintable()]


class TopApp:
    """The view, on the terminal of this process."""

    def __init__(
        self,
        source: Source,
        *,
        note: str = "",
        clock: Clock | None = None,
        event_time: bool = False,
        console: Console | None = None,
    ) -> None:
        self._source = source
        self.view = View(clock or SystemClock(), note=note, event_time=event_time)
        self._console = console or Console()
        self._live: Live | None = None
        self._threads = Threads("top")
        self.ended = asyncio.Event()

    def run(self) -> None:
        """Show until the user quits."""
        asyncio.run(self.run_async())

    async def run_async(self) -> None:
        """Show until the user quits, or until cancelled; then the terminal is as it was."""
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        with _keys_at_once(stdin), Live(console=self._console, screen=True, auto_refresh=False) as self._live:
            loop.add_reader(stdin, self._typed, stdin)
            loop.add_signal_handler(signal.SIGWINCH, self.draw)
            tasks = [loop.create_task(each) for each in (self._look(), self._redraw())]
            try:
                await self.ended.wait()
            finally:
                loop.remove_reader(stdin)
                loop.remove_signal_handler(signal.SIGWINCH)
                for task in tasks:
                    task.cancel()
                self._live = None

    def exit(self) -> None:
        """Show no longer."""
        self.ended.set()

    def draw(self) -> None:
        """Show what is known now, if the view is open."""
        if self._live is not None:
            width, height = self._console.size
            self._live.update(self.view.screen(width, height), refresh=True)

    async def fetch(self) -> None:
        """Ask the source once."""
        try:
            snapshot = await self._threads.run(self._source.fetch, self.view.words)
        except Exception as fault:  # noqa: BLE001  # whatever it is, the screen says it and the next second tries again
            self.view.failed("; ".join(described(fault)[1]))
        else:
            self.view.answered(snapshot)

    async def _look(self) -> None:
        """A source slower than the interval is asked again after it has answered."""
        while True:
            await self.fetch()
            self.draw()
            await asyncio.sleep(_EVERY_S)

    async def _redraw(self) -> None:
        """Ages grow while the source is slow."""
        while True:
            self.draw()
            await asyncio.sleep(_EVERY_S)

    def _typed(self, stdin: int) -> None:
        typed = b""
        with suppress(OSError):  # a terminal that is gone is an end
            typed = os.read(stdin, 4_096)
        for key in keys_of(typed.decode(errors="ignore")):
            self.view.press(key)
        if self.view.closed or not typed:
            self.exit()
        self.draw()


@contextmanager
def _keys_at_once(stdin: int) -> Iterator[None]:
    """Keys come without Enter and are not echoed; Ctrl-C is one of them."""
    before = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    now = termios.tcgetattr(stdin)
    now[3] &= ~termios.ISIG
    termios.tcsetattr(stdin, termios.TCSANOW, now)
    try:
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSAFLUSH, before)
