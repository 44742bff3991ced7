"""The sentences of the alerts of a few lines, fed one by one."""

from __future__ import annotations

from schemas.tables import ALERTS
from tests.oracle.cases import T0, job, price
from tests.oracle.knowledge import in_log_time
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.watching import Watching
from tests.strategies.logs import time_of

M = MINUTE_MS
PRICES = (
    price("spot", "1.8", match={"purchase": "spot"}),
    price("on_demand", "4.1", match={"purchase": "on_demand"}),
    price("cross", "0.09", component="network", per="gb", match={"path": "cross_region"}),
    # It is off by default.
    Line(
        "controls",
        {"source": "r", "id": "on", "kind": "rule", "name": "unpriced", "time_ms": T0, "enabled": True},
    ),
)


def sentences(*lines: Line) -> dict[tuple[str, str], str]:
    """(rule, status) -> the summary that was stored then."""
    last_ms = min(max(map(time_of, lines)), T0 + 3 * HOUR_MS)
    clock = [job("clock", "queued", at_ms) for at_ms in range(T0, last_ms, 10 * M)]
    ordered = sorted([*PRICES, *clock, *lines], key=time_of)
    watching = Watching(in_log_time(ordered))
    found: dict[tuple[str, str], str] = {}
    for end in range(1, len(ordered) + 1):
        watching.feed(end)
        watching.checkpoint()
        found |= {(row["rule"], row["status"]): row["summary"] for row in watching.rows(ALERTS)}
    assert all(text.isprintable() for text in found.values())
    return found
