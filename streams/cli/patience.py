"""Says on a terminal that a command is still at work, as a busy machine or a large store make it silent for seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

FIRST_S: Final = 2.0
_AGAIN_S: Final = 10.0
#: Commands that draw, ask, log or show progress themselves.
_SAYING: Final = frozenset(
    {
        "demo",
        "top",
        "worker",
        "serve",
        "init",
        "replay",
        "backfill",
        "backtest",
        "publish",
        "collect",
        "gameday",
        "dead-letters replay",
    }
)


@contextmanager
def still_at_work(command: str, stream: TextIO | None = None, first_s: float = FIRST_S) -> Iterator[None]:
    """Write a line to the terminal `stream` (stderr) after `first_s`, and one each 10 s after that, as long as the block runs."""
    out = sys.stderr if stream is None else stream
    if command in _SAYING or not out.isatty():
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_say, args=(command, out, over, first_s), name="patience", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _say(command: str, out: TextIO, over: threading.Event, next_s: float) -> None:
    waited_s = 0.0
    while not over.wait(next_s):
        waited_s += next_s
        next_s = _AGAIN_S
        out.write(f"trainfare: {command} is still at work, {waited_s:.0f} s so far; Ctrl-C ends it\n")
        out.flush()
