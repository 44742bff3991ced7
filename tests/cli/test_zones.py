"""A command that is asked for days, weeks or months takes the time zone of them, or is listed here with the reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from streams.cli.main import build

#: Options, and an argument, that name days, weeks or months.
ABOUT_DAYS = frozenset({"--from", "--month", "--last", "--last-week", "--per", "month"})
WITHOUT = {
    "allocation show": "bills are of months of UTC",
    "bills allocate": "bills are of months of UTC",
    "bills export": "charges of FOCUS are by hours of UTC",
    "bills reconcile": "bills are of days of UTC",
    "fx show": "rates are of days that have no zone",
    "close": "bills are of months of UTC",
    "prices amortize": "schedules are of months of UTC",
    "prices load": "prices begin at midnight of UTC, or at an instant",
    "statement": "it shows a month as it was closed, and bills are of months of UTC",
}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in sorted(getattr(group, "commands", {}).items()):
        if hasattr(each, "commands"):
            yield from commands(each, (*words, name))
        else:
            yield " ".join((*words, name)), each


ASKED = {
    name: {option for parameter in each.params for option in parameter.opts}
    for name, each in commands(get_command(build()))
}


def test_every_command_about_days_takes_a_zone_or_is_listed() -> None:
    without = {name for name, options in ASKED.items() if options & ABOUT_DAYS and "--tz" not in options}
    assert without == set(WITHOUT)


def test_what_is_about_days_is_found() -> None:
    assert {"costs", "idle", "coverage", "savings", "carbon show", "commitments show", "chargeback", "forecast"} <= {
        name for name, options in ASKED.items() if "--tz" in options
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_a_reason_is_of_a_command(name: str) -> None:
    assert name in ASKED
