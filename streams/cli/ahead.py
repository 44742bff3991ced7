"""Does what takes longest before the command line is loaded: `trainfare sql` answers in half the time, `--help` at once."""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sinks.left_out import OF_ARROW, PANDAS, leave_out
from streams.cli.cycles import collect_less_often

if TYPE_CHECKING:
    from sinks.query.process import Spawned

_started: list[Spawned] = []
#: What `trainfare --help` prints where lines need no other breaks: all commands would be loaded to say the same.
HELP: Final = Path(__file__).with_name("help.txt")
_HELP_COLUMNS: Final = 80


def main() -> None:
    """Run the command `trainfare`."""
    if sys.argv[1:] in (["--help"], ["-h"]) and _columns() >= _HELP_COLUMNS:
        _print_help()
        return
    leave_out(PANDAS)
    # No plugin of Pydantic is used; to find one it reads what each installed package says about itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    collect_less_often()
    if sys.argv[1:2] == ["sql"] and not {"-h", "--help"} & set(sys.argv):
        from sinks.query.process import spawn

        _started.append(spawn())
        leave_out(*OF_ARROW)
        atexit.register(_end_unused)
    from streams.cli.main import main as command

    command()


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal():
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]  # without one it raises
    except (OSError, ValueError, AttributeError):
        return _HELP_COLUMNS  # no terminal


def _print_help() -> None:
    try:
        sys.stdout.write(HELP.read_text(encoding="utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has ended; nobody would read a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def taken() -> Spawned | None:
    """The query process that was started; the caller uses and ends it."""
    return _started.pop() if _started else None


def _end_unused() -> None:
    for spawned in _started:
        spawned.close()


if __name__ == "__main__":
    main()
