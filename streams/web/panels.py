"""GET /api/v1/dashboards and /api/v1/panels/NAME: the shipped panels, and what one of them says of a range.

Whoever may read sees them; only the product's own statements run, with bound parameters.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from schemas.durations import DAY_MS
from schemas.reasons import Reason
from schemas.tables import SCHEMAS
from sinks.clickhouse.view_files import shipped_views
from sinks.query.team_rows import READABLE
from sinks.query.wire import Parameter
from streams.panels.panel import Panel, step_of
from streams.panels.registry import DASHBOARDS, PANELS
from streams.threads import Threads
from streams.web.errors import ApiError
from streams.web.parameters import instant
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.store_reader import FOR_ALL

_THREADS: Final = Threads("panels", 2)
#: The longest range: of more, a panel has too many steps to be read.
RANGE_MAX_MS: Final = 5 * 366 * DAY_MS
_READ: Final = re.compile(r"(?:FROM|JOIN)\s+(\w+)", re.ASCII)
_KNOWN: Final = frozenset({*SCHEMAS, *(view.name for view in shipped_views())})


class Range(NamedTuple):
    """Seconds since 1970, and between two points."""

    from_s: int
    to_s: int
    step_s: int


def dashboards(*, by_team: bool = False) -> dict[str, Any]:
    """All dashboards, with what their panels answer; `by_team`: those that can be made of rows of some teams."""
    return {
        "dashboards": [
            {
                "name": board.name,
                "title": board.title,
                "answers": board.answers,
                "range_s": board.range_s,
                "panels": [_about(panel) for panel in board.panels if not (by_team and is_for_all(panel))],
            }
            for board in DASHBOARDS
        ]
    }


def is_for_all(panel: Panel) -> bool:
    """Whether a panel reads what is not kept apart by team, such as nodes."""
    return not READABLE.issuperset(_KNOWN & {*_READ.findall(panel.sql)})


def _about(panel: Panel) -> dict[str, Any]:
    return {
        "name": panel.name,
        "title": panel.title,
        "answers": panel.answers,
        "form": panel.form,
        "unit": panel.unit,
        "units": dict(panel.units),
        "span": panel.span,
        "needs_job": panel.needs_job,
        "thresholds": list(panel.thresholds),
        "is_monthly": panel.is_monthly,
    }


async def panel_answer(
    name: str, asked: Mapping[str, str], service: QueryService, client: Client
) -> dict[str, Any]:
    """The rows of a panel: times in ms since 1970, money as decimal strings; `sql` is what was asked, with its parameters filled in.

    Raises:
        ApiError: There is no such panel, a parameter is wrong, or the query failed.
    """
    panel = PANELS.get(name)
    if panel is None:
        raise ApiError(404, f"panel {name!r}: there is none; /api/v1/dashboards has their names")
    if client.teams is not None and is_for_all(panel):
        raise ApiError(
            403,
            f"panel {name!r}: {FOR_ALL}",
            Reason.beyond_token,
        )
    span, job = _range(asked), asked.get("job", "")
    if panel.needs_job and not job:
        raise ApiError(400, f"panel {panel.name!r} is about one job: name it (job=...)")
    values: dict[str, Parameter] = {**span._asdict(), "job": job}
    parameters = {each: values[each] for each in sorted(panel.parameters)}
    async with service.answered(panel.sql, parameters, "json", client, is_own=True) as answer:
        data = await _THREADS.run(os.pread, answer.descriptor, answer.size_bytes, 0)
    rows = await _THREADS.run(msgspec.json.decode, data)
    return {
        "name": name,
        "from_ms": span.from_s * 1_000,
        "to_ms": span.to_s * 1_000,
        "step_ms": span.step_s * 1_000,
        "sql": filled(panel, span, job),
        **rows,
    }


def _range(asked: Mapping[str, str]) -> Range:
    from_ms, to_ms = (_instant(asked, name) for name in ("from_ms", "to_ms"))
    if not from_ms < to_ms <= from_ms + RANGE_MAX_MS:
        most = f"{RANGE_MAX_MS // DAY_MS:,} days"
        raise ApiError(400, f"from_ms must be before to_ms, by {most} at most")
    from_s, to_s = from_ms // 1_000, -(-to_ms // 1_000)
    return Range(from_s, to_s, step_of(from_s, to_s))


def _instant(asked: Mapping[str, str], name: str) -> int:
    found = instant(name, asked.get(name))
    if found is None:
        raise ApiError(400, f"{name} is missing: milliseconds since 1970")
    return found


def filled(panel: Panel, span: Range, job: str) -> str:
    """The statement with values in the place of its parameters, as somebody could send it."""
    sql = panel.sql.strip()
    for name, value in span._asdict().items():
        sql = sql.replace(f"{{{name}:Int64}}", f"toInt64({value})")
    quoted = job.replace("\\", "\\\\").replace("'", "\\'")
    return sql.replace("{job:String}", f"'{quoted}'")
