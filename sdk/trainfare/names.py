"""Names that the meter refuses, and texts of strangers for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Names that begin so are of the meter's own test job.
_RESERVED = "trainfare-canary"
_NAMES = ("job_id", "source", "node", "cloud")
#: What the meter's tables show beside the names of teams, projects, owners and experiments.
_GROUPS = frozenset(("idle", "unallocated", "unmetered", "overcommitted", "(none)"))
_GROUPED = ("owner", "team", "project", "experiment")
_SHOWN_CHARS = 80
#: Blank, and yet letters or marks to Unicode.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)


def fault_of(fields: Mapping[str, Any]) -> str:
    """Which name the meter would refuse, and why; empty if it takes all."""
    for name, value in fields.items():
        text = value if isinstance(value, str) else ""
        if "\0" in text:
            return f"{name}: a NUL byte in it"
        if name in _NAMES and text.startswith(_RESERVED):
            return f"{name}: {text[:_SHOWN_CHARS]} is one of the meter's own names; choose one that does not begin with {_RESERVED}"
        if name in _GROUPED and text.strip().lower() in _GROUPS:
            return f"{name}: {text[:_SHOWN_CHARS]} is a word of the meter's tables; choose another name"
    return ""


def visible(text: str) -> str:
    r"""The text with what does not print, or turns the direction of text, escaped as `\x1b` or `\u202e`."""
    if text.isprintable() and _BLANK.isdisjoint(text):
        return text
    return "".join(
        each if each.isprintable() and each not in _BLANK else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
