r"""Text of strangers for people to read: what does not print, or steers a terminal or the order of letters, is escaped.

It must not be used for what programs read: JSON has escapes of its own, and CSV is exact.
"""

import re
from typing import Final

# Blank, and yet letters or marks to Unicode; all other characters that do not show are not printable to Python.
_SELECTORS: Final = "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0" + _SELECTORS
)
_IN_JSON: Final = re.compile(r"[^\x20-\x7e\n]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with invisible and control characters escaped, as `\x1b` or `\u202e`; with `lines`, newlines stay.

    Escaped are control characters (C0, DEL, C1), characters that change the text direction, characters without width,
    separators of lines and paragraphs, blanks other than the space, lone surrogates and unassigned characters.
    """
    if text.isprintable() and _BLANK.isdisjoint(text):
        return text
    return "".join(each if _is_seen(each) or (lines and each == "\n") else _escaped(each) for each in text)


def visible_json(text: str) -> str:
    r"""JSON in which the same characters stand as `\uXXXX`: the same value to a program."""
    return _IN_JSON.sub(lambda found: found[0] if _is_seen(found[0]) else _json_escape(found[0]), text)


def utf8_text(text: str) -> str:
    """Replace lone surrogates: JSON can contain one in a job id, UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can have the text: half of a surrogate pair it cannot."""
    return text.isascii() or utf8_text(text) == text


def _is_seen(each: str) -> bool:
    return each.isprintable() and each not in _BLANK


def _escaped(each: str) -> str:
    return each.encode("unicode_escape").decode("ascii")


def _json_escape(each: str) -> str:
    units = each.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
