"""Reads a page of docs/: its sections, the rows of its tables, its blocks of code and records."""

import re
from pathlib import Path

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.cli.publish import outgoing
from streams.topics import Topic

LATER_MS = 2**42
DOCS = Path(__file__).resolve().parents[2] / "docs"


def section(page: str, title: str) -> str:
    """The text under a caption of the second level, up to the next one."""
    found = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def rows(text: str) -> list[list[str]]:
    """The cells of all tables in the text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def block(text: str, language: str) -> str:
    """The first block of code in a language."""
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def span(ms: int) -> str:
    """A time as the pages write it."""
    return f"{ms // 3_600_000} h" if ms % 3_600_000 == 0 else f"{ms // 60_000} min"


def published(text: str, folder: Path) -> list[ControlEvent]:
    """The controls of the first block of JSON, as `trainfare publish` sends them and a worker reads them."""
    file = folder / "controls.jsonl"
    file.write_text(block(text, "json"))
    events = []
    for each in outgoing(file, "trainfare."):
        assert each.topic is Topic.CONTROLS
        event = decode("controls", each.value, [], LATER_MS)
        assert isinstance(event, ControlEvent)
        assert each.key == f"{event.kind}/{event.name}".encode()
        events.append(event)
    return events
