"""`trainfare demo`: a simulated fleet, metered by the same components as a real one, in one process."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.cycles import collect_rarely
from streams.cli.kernels import compile_kernels
from streams.cli.options import require_store, settings_for
from streams.cli.replay import quieter
from streams.clock import SystemClock
from streams.errors import TrainfareError
from streams.log import configure_logging

if TYPE_CHECKING:
    from streams.demo.run import Screen

_BIND = "127.0.0.1"
#: What continuation lines begin with, and the least width at which lines are wrapped.
_INDENT = "    "
_COLUMNS_AT_LEAST = 20


def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            metavar="N",
            min=1,
            max=43_200,
            help="Stop after this many seconds; otherwise on Ctrl-C.",
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option("--speed", metavar="X", min=1, max=600, help="Speed of simulated time, as a multiple."),
    ] = 60,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65_535, help="Port of the live page; 0: any free port."
        ),
    ] = 8787,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the page.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", help="Keep the store in this directory; otherwise it is temporary."
        ),
    ] = None,
) -> None:
    """Watch a simulated fleet cost money, and a runaway job page its owner; nothing is installed or sent."""
    _must_be_free(port)
    with _kept_in(data) as directory:
        settings = settings_for(directory, web__port=port, web__bind=_BIND, web__enabled=True)
        # The demo does not use the tokens of a real meter, and creates its own.
        web = settings.web.model_copy(update=dict.fromkeys(settings.web.tokens()))
        settings = settings.model_copy(update={"web": web})
        require_store(settings)
        configure_logging(quieter(settings.log))
        compile_kernels()
        _say("starting broker, store and meter")
        from streams.cli.demo_lines import summary  # loads Kafka, ClickHouse, the kernels, the terminal
        from streams.demo.run import DemoOptions, run_demo

        collect_rarely()
        screen = _screen(speed, browser=not no_browser)
        found = run_demo(settings, DemoOptions(speed, seconds), screen, SystemClock())
    for name, value in summary(found):
        _say(f"{name:<16}{value}")
    if data is None:
        _say(f"{'stored':<16}nothing is kept; --data DIR would keep it")
    else:
        _say(f"{'stored':<16}in {data}: trainfare jobs --data {data}")
    if not found.books.balanced:
        raise TrainfareError("the books of the demo do not balance; please report this")


def _screen(speed: float, *, browser: bool) -> Screen:
    from streams.cli.demo_screens import PlainScreen, TerminalScreen

    if sys.stdout.isatty() and sys.stdin.isatty():
        return TerminalScreen(_say, speed, browser=browser)
    return PlainScreen(_say, speed)


@contextmanager
def _kept_in(data: Path | None) -> Iterator[Path]:
    """Yield the directory of the store: the given one, otherwise a temporary one."""
    if data is not None:
        yield data
        return
    directory = Path(tempfile.mkdtemp(prefix="trainfare-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _must_be_free(port: int) -> None:
    """Check the port before anything is loaded; if it is taken later, starting the server fails."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_BIND, port))
        except OSError as fault:
            raise TrainfareError(
                f"port {port} of {_BIND} cannot be used ({fault.strerror}); name another with --port, "
                "or --port 0 for any that is free"
            ) from fault


def _say(line: str) -> None:
    """Write a line; a terminal, which would break it within a word, gets it broken between words."""
    if sys.stdout.isatty():
        line = between_words(line, shutil.get_terminal_size().columns)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def between_words(line: str, columns: int) -> str:
    """The line in lines of so many columns; an address that is longer stays whole, so that it can be copied."""
    return textwrap.fill(
        line,
        max(columns, _COLUMNS_AT_LEAST),
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
