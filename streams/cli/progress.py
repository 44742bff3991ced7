"""Shows a progress bar on stderr on a terminal; elsewhere nothing, or a line now and then where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

_LINES: Final = 10


class Advance(Protocol):
    """Moves a bar."""

    def __call__(self, by: int, /) -> None:
        """Move it by so many."""
        ...

    def stage(self, what: str, done: int, total: int, /) -> None:
        """Show a stage of its own, of which so many of a known total are done, in a bar below."""
        ...


@contextmanager
def progress(what: str, total: int | None, *, in_lines: bool = False) -> Iterator[Advance]:
    """Show a bar during the block; what is yielded advances it.

    `in_lines`: where stderr is no terminal, write a line at each tenth of `total`.
    """
    if not sys.stderr.isatty():
        yield _Silent(_lines(what, total) if in_lines and total else lambda _by: None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, bar.add_task(what, total=total))


class _Silent:
    """No terminal: stages are not shown."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance

    def __call__(self, by: int, /) -> None:
        self._advance(by)

    def stage(self, what: str, done: int, total: int, /) -> None:
        pass


class _Bar:
    """A bar of a terminal."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task
        self._stage: TaskID | None = None

    def __call__(self, by: int, /) -> None:
        self._bar.advance(self._task, by)

    def stage(self, what: str, done: int, total: int, /) -> None:
        if self._stage is None:
            self._stage = self._bar.add_task(what, total=total)
        self._bar.update(self._stage, description=what, completed=done, total=total)


def _lines(what: str, total: int) -> Callable[[int], None]:
    done = 0

    def advance(by: int) -> None:
        nonlocal done
        before, done = done, done + by
        if done * _LINES // total > before * _LINES // total:
            sys.stderr.write(f"{what}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    return advance
