"""Shows a progress bar on stderr on a terminal; elsewhere nothing, or a line now and then where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LINES: Final = 10


@contextmanager
def progress(what: str, total: int | None, *, in_lines: bool = False) -> Iterator[Callable[[int], None]]:
    """Show a bar during the block; the yielded function advances it.

    `in_lines`: where stderr is no terminal, write a line at each tenth of `total`.
    """
    if not sys.stderr.isatty():
        yield _lines(what, total) if in_lines and total else lambda _by: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda by: bar.advance(task, by)


def _lines(what: str, total: int) -> Callable[[int], None]:
    done = 0

    def advance(by: int) -> None:
        nonlocal done
        before, done = done, done + by
        if done * _LINES // total > before * _LINES // total:
            sys.stderr.write(f"{what}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    return advance
