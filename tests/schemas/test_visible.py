"""What does not show, or steers what is shown, is escaped; all else stays."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from schemas.escaping import visible, visible_json

HIDDEN = [
    *range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F),
    0x2060, *range(0x2066, 0x206A), 0xFEFF, 0xAD, 0x34F, 0x115F, 0x3164, 0xD800, 0xE0001, 0xE0041,
]  # fmt: skip


@pytest.mark.parametrize("code", HIDDEN)
def test_each_is_escaped(code: int) -> None:
    shown = visible(f"a{chr(code)}b")
    assert shown.startswith("a\\")
    assert shown.isascii()
    assert visible_json(json.dumps(chr(code), ensure_ascii=False)).isascii()


def test_as_python_writes_them() -> None:
    assert visible("a\x1b]52;c;x\x07\r\n\u202eb\U000e0001") == r"a\x1b]52;c;x\x07\r\n\u202eb\U000e0001"
    assert visible("a\nb\tc", lines=True) == "a\nb\\tc"


@pytest.mark.parametrize("text", ["", "llama-7b", "größe 70b", "训练", "пример", "a`b$c\\d", "😀", "€ … ¿"])
def test_what_shows_stays(text: str) -> None:
    assert visible(text) == text
    assert visible_json(text) == text


def test_no_character_of_another_kind_comes_through() -> None:
    """All of Unicode: no control, format character, surrogate, separator but the space, and nothing unassigned."""
    for code in range(sys.maxunicode + 1):
        each = chr(code)
        if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or (
            each != " " and each.isspace()
        ):
            assert each not in visible(each)


def test_json_means_the_same_and_keeps_its_lines() -> None:
    value = {"a\u202e": ["\x1b[2J", "\x9b", "ü", "\U000e0001", "\u2028", "\x7f"], "b": 1}
    text = json.dumps(value, ensure_ascii=False, indent=2)
    shown = visible_json(text)
    assert json.loads(shown) == value
    assert visible(shown, lines=True) == shown
    assert shown.count("\n") == text.count("\n")
