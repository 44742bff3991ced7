"""Recordings of real programs: a packed file of looks at one, a line of JSON each. Each `record.py` makes one."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

#: The name of something in each recording.
EVIL: Final = "a\x1b[31m\u202e'\"; $(true)"


def write_looks(file: Path, looks: Iterable[dict[str, Any]]) -> None:
    """Write a recording."""
    lines = b"".join(json.dumps(look, separators=(",", ":")).encode() + b"\n" for look in looks)
    file.write_bytes(lzma.compress(lines))


def looks_in(file: Path) -> Sequence[dict[str, Any]]:
    """Return the looks of a recording, in their order."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
