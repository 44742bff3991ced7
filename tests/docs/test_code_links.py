"""Pages that lead into the code: each linked file exists and has the name that the link shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[`([^`]+)`\]\(\.\./([\w./]+\.py)\)")
PAGES = ("glossary.md", "life_of_a_record.md")


def dead_links(text: str) -> list[str]:
    """Links to a file that is not there, or to a name that its file does not have."""
    found = []
    for shown, path in LINK.findall(text):
        file = ROOT / path
        name = shown.rsplit(".", 1)[-1].rstrip("()")
        if not file.is_file() or (
            shown != path and not re.search(rf"\b{name}\b", file.read_text() + file.stem)
        ):
            found.append(f"{shown} -> {path}")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_link_into_the_code_leads_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert len(LINK.findall(text)) > 15
    assert dead_links(text) == []


@pytest.mark.parametrize(
    "link", ["[`Shard`](../streams/nowhere.py)", "[`Nothing.fold`](../streams/engine/batch.py)"]
)
def test_a_dead_link_is_found(link: str) -> None:
    assert len(dead_links(link)) == 1


def missing_files(text: str) -> list[str]:
    """Files of the project in backticks that are not there."""
    named = re.findall(r"`((?:schemas|sinks|streams|tests|docs)/[\w./]+\.\w+)`", text)
    return [path for path in named if not (ROOT / path).exists()]


def test_every_file_of_the_recipes_is_there() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    assert text.count("\n### ") >= 5
    assert missing_files(text) == []
    assert missing_files("`streams/nowhere.py`") == ["streams/nowhere.py"]
