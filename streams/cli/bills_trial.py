"""`trainfare bills load --dry-run`: what files would load as, and what of them is not understood."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from schemas.counting import how_many
from schemas.escaping import visible
from streams.bills.archives import bill_files
from streams.bills.outcome import unpack_refusal
from streams.bills.reading import AskedFormat
from streams.bills.trial import Trial, tried
from streams.bills.values import total, trimmed
from streams.cli.output import Grid, OutputFormat, write
from streams.errors import WrongUseError
from streams.packed import UNPACK_ERRORS

_COLUMNS: Final = ("service", "category", "currency", "lines", "billed", "effective")


def show_trials(files: Sequence[Path], asked: AskedFormat) -> None:
    """Read each file to its end, and print what it holds.

    Raises:
        WrongUseError: A file cannot be read, or has lines that are wrong; those that can be read are shown first.
    """
    wrong = 0
    for file in bill_files((str(path), path) for path in files):
        try:
            found = tried(file, asked)
        except UNPACK_ERRORS as fault:
            raise WrongUseError(unpack_refusal(fault)) from None
        _show(found)
        wrong += found.faults.count
    if wrong:
        raise WrongUseError(f"{how_many(wrong, 'line')} cannot be read; nothing would be loaded")


def _show(found: Trial) -> None:
    sys.stdout.write(
        f"{visible(found.name)}: {found.title or 'no lines'}, {how_many(found.lines, 'line')}; a trial, nothing is stored\n"
    )
    rows = [(*each[:4], trimmed(each.billed), trimmed(each.effective)) for each in found.sums]
    for currency in sorted({each.currency for each in found.sums}) if len(rows) > 1 else ():
        parts = [each for each in found.sums if each.currency == currency]
        billed, effective = (
            total(each) for each in zip(*((each.billed, each.effective) for each in parts), strict=True)
        )
        rows.append(
            ("(all)", "", currency, sum(each.lines for each in parts), trimmed(billed), trimmed(effective))
        )
    write(Grid(_COLUMNS, rows), OutputFormat.table)
    for note in found.notes:
        sys.stdout.write(f"  {visible(note)}\n")
    if found.unread:
        sys.stdout.write(
            f"  not understood, kept as they are: {visible(', '.join(map(repr, found.unread)))}\n"
        )
    for fault in found.faults.first:
        sys.stdout.write(f"  WRONG {visible(fault.removesuffix('; nothing of this file is loaded'))}\n")
