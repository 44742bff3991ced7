"""Starts the slowest part before the command line is loaded: `trainfare sql` answers in half the time."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinks.query.process import Spawned

_started: list[Spawned] = []


def main() -> None:
    """Run the command `trainfare`."""
    if sys.argv[1:2] == ["sql"] and not {"-h", "--help"} & set(sys.argv):
        from sinks.query.process import spawn

        _started.append(spawn())
        atexit.register(_end_unused)
    from streams.cli.main import main as command

    command()


def taken() -> Spawned | None:
    """The query process that was started; the caller uses and ends it."""
    return _started.pop() if _started else None


def _end_unused() -> None:
    for spawned in _started:
        spawned.close()


if __name__ == "__main__":
    main()
