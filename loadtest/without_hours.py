"""`trainfare` without hour rows, to see what writing them costs: `python -m loadtest.without_hours replay ...`.

What it writes has no hours, and its state owes none.
"""

from __future__ import annotations

from typing import Final

from streams.cli.main import main
from streams.engine.ledger import derive

PARTS: Final = ("mark_lines", "mark_time", "put_off_hours", "write_hours")


def leave_out_hours() -> None:
    """Make the engine derive no hour row in this process."""

    def nothing(*_: object) -> None:
        """Neither mark nor write an hour."""

    for name in PARTS:
        assert hasattr(derive, name), name
        setattr(derive, name, nothing)


if __name__ == "__main__":
    leave_out_hours()
    main()
