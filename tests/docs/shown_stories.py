"""The alerts that docs/stories.md shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "stories.md").read_text()
#: Commands on the page, and what they print.
BLOCKS = re.findall(r"```\n\$ trainfare (.*?)\n(.*?)```", PAGE, re.DOTALL)


def shown_alerts(name: str) -> list[tuple[datetime, str, str, str]]:
    """(time, severity, rule, sentence) of each alert of a story."""
    (shown,) = [shown for command, shown in BLOCKS if command.split()[1] == f"examples/stories/{name}.jsonl"]
    *_, table = shown.rstrip().split("\n\n")
    head, *lines = table.splitlines()
    begins = [head.index(title) for title in ("fired", "until", "severity", "rule", "what it says")]
    found = []
    for line in lines:
        cells = [line[begin:end].strip() for begin, end in zip(begins, [*begins[1:], None], strict=True)]
        fired = datetime.fromisoformat(cells[0]).replace(tzinfo=UTC)
        found.append((fired, cells[2], cells[3], cells[4]))
    return found
