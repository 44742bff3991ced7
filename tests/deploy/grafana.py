"""Grafana's part in a dashboard, for tests: every statement of a file, with the macros of the data source filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"


class Target(NamedTuple):
    """One question of one panel."""

    panel: str
    kind: str
    sql: str
    is_time_series: bool


def targets(path: Path) -> Iterator[Target]:
    board: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield Target(panel["title"], panel["type"], target["rawSql"], target["format"] == 0)


def expanded(sql: str, from_s: int, to_s: int, interval_s: int, job: str = "a") -> str:
    """The statement as the data source sends it; a macro that is not known here is a mistake."""
    begin, end = f"toDateTime({from_s})", f"toDateTime({to_s})"
    for pattern, text in (
        (r"\$__timeFilter\(([\w.]+)\)", rf"\1 >= {begin} AND \1 <= {end}"),
        (
            r"\$__timeInterval\(([\w.]+)\)",
            rf"toStartOfInterval(toDateTime(\1), INTERVAL {interval_s} second)",
        ),
        (r"\$__fromTime\b", begin),
        (r"\$__toTime\b", end),
        (r"\$__interval_s\b", str(interval_s)),
        (r"\$\{job:sqlstring\}", f"'{job}'"),
    ):
        sql = re.sub(pattern, text, sql)
    left = re.findall(r"\$\w+", sql)
    if left:
        raise ValueError(f"macros that the data source does not know: {left}")
    return sql
