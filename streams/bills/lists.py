"""Lists that finance keeps beside bills, each loaded from files: which there are, and what became of a file."""

from __future__ import annotations

from typing import Literal

import msgspec

#: What the files of a load are: bills, or one of the lists.
LoadKind = Literal["bills", "rates", "commitments", "carbon", "allocation_rules"]


class ListLoaded(msgspec.Struct, frozen=True):
    """What became of a file of a list."""

    name: str
    entries: int
    new: int
    changed: int
    removed: int = 0
    changes: list[str] = []  # the first of those that changed or went, in words
