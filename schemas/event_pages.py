"""The pages of docs/ on which the fields of each topic stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: page -> the topics whose fields it has.
TOPICS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "usage_events.md": ("jobs", "gpu", "network", "storage", "nodes"),
    "reference_events.md": ("prices", "controls"),
}
_PAGE_OF: Final = {topic: page for page, topics in TOPICS_OF.items() for topic in topics}


def fields_page(topic: str) -> str:
    """The page with the fields of a topic, below docs/ and with their heading."""
    return f"{_PAGE_OF[topic]}#{topic}"
