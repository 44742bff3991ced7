"""Markdown of names and texts of anybody: a reader of Markdown finds the same cells, and nothing that is more than text."""

from __future__ import annotations

from typing import Any

import pytest
from markdown_it import MarkdownIt

from streams.cli.markdown import block, code, prose, table

HOSTILE = "a|b`c``<img src=x onerror=alert(1)>[x](http://evil.example)@all #1 \u202e$x$ *y* _z_ ![i](u)"
NODES = {"link_open", "image", "html_inline", "html_block", "em_open", "strong_open"}


def cells(markdown: str) -> list[list[str]]:
    """The text of the cells of every row of every table, as a reader of Markdown has it."""
    rows: list[list[str]] = []
    tokens = parsed(markdown)
    for place, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open"):
            rows[-1].append(tokens[place + 1].content)
    return rows


def parsed(markdown: str) -> list[Any]:
    return MarkdownIt("commonmark").enable("table").parse(markdown)


def kinds(markdown: str) -> set[str]:
    tokens = parsed(markdown)
    return {each.type for token in tokens for each in (token, *(token.children or ()))}


@pytest.mark.parametrize(
    "text",
    [HOSTILE, "`", "``", "|", "\\", "a\\|b", " ", "<b>", "&lt;", "http://x.example", "@x", "\n# h", "\x1b[31m", "\ud800", "~~x~~", "x" * 5_000],
)  # fmt: skip
def test_any_text_is_one_cell_without_markup(text: str) -> None:
    for shown in (code(text), prose(text)):
        markdown = table(("a", "b"), [(shown, "end")])
        assert not kinds(markdown) & (NODES | {"s_open", "heading_open"})
        assert [row[-1] for row in cells(markdown)] == ["b", "end"]
        assert [len(row) for row in cells(markdown)] == [2, 2]
        assert len(markdown) < 1_500
        markdown.encode()


def test_a_block_ends_where_it_ends() -> None:
    tokens = parsed(block("SELECT '````'\n```\n# no", "sql"))
    assert [(token.type, token.content) for token in tokens] == [("fence", "SELECT '````'\n```\n# no\n")]
