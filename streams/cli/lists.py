"""Loads files of the lists that finance keeps beside bills, and says what became of each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemas.escaping import visible
from streams.cli.files import must_exist
from streams.cli.options import check_one_of
from streams.cli.reading import reader_for

if TYPE_CHECKING:
    from streams.bills.lists import LoadKind


#: What the entries of a list are called, where it is not as the list is.
_CALLED: Final = {"carbon": "hours of regions", "allocation_rules": "allocation rules"}


def load_files(files: Sequence[Path], of: LoadKind, wanted: str, data: Path | None, url: str | None) -> None:
    """Load the files, here or through a worker; `wanted`: what to name if one is missing.

    Raises:
        WrongUseError: A file is wrong; nothing is stored.
    """
    check_one_of(data, url)
    must_exist([*files], wanted)
    with reader_for(data, url, writes=True) as store:
        found = store.load_list(files, of)
        if of == "allocation_rules":
            store.allocate_bills()
    for each in found:
        sys.stdout.write(
            f"{visible(each.name)}: {each.entries} {_CALLED.get(of, of)}; "
            f"{each.new} new, {each.changed} changed, {each.removed} removed\n"
        )
        for change in each.changes:
            sys.stdout.write(f"  {visible(change)}\n")
        if each.changed + each.removed > len(each.changes):
            sys.stdout.write(f"  and {each.changed + each.removed - len(each.changes)} more\n")
