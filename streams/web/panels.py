"""GET /api/v1/dashboards, /api/v1/dashboards/NAME and /api/v1/panels/NAME: the shipped panels, and what they say of a range.

Whoever may read sees them; only the product's own statements run, with bound parameters.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.durations import DAY_MS, DAY_S
from schemas.reasons import Reason
from schemas.tables import SCHEMAS
from sinks.clickhouse.view_files import shipped_views
from sinks.query.team_rows import READABLE
from sinks.query.wire import Parameter
from streams.panels.panel import Dashboard, Panel, step_of
from streams.panels.registry import DASHBOARDS, PANELS
from streams.threads import Threads
from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.parameters import instant
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.store_reader import FOR_ALL

_THREADS: Final = Threads("panels", 2)
#: What `range` of a dashboard may be, in seconds.
RANGES_S: Final = {"1h": 3_600, "24h": DAY_S, "30d": 30 * DAY_S, "1y": 365 * DAY_S}
#: Panels of one dashboard that are asked at a time: as many as one reader may.
_AT_ONCE: Final = 2
#: The longest range: of more, a panel has too many steps to be read.
RANGE_MAX_MS: Final = 5 * 366 * DAY_MS
_READ: Final = re.compile(r"(?:FROM|JOIN)\s+(\w+)", re.ASCII)
_KNOWN: Final = frozenset({*SCHEMAS, *(view.name for view in shipped_views())})


class Range(NamedTuple):
    """Seconds since 1970, and between two points."""

    from_s: int
    to_s: int
    step_s: int

    def as_json(self) -> dict[str, int]:
        """What an answer says of it, in ms."""
        return {
            "from_ms": self.from_s * 1_000,
            "to_ms": self.to_s * 1_000,
            "step_ms": self.step_s * 1_000,
        }


class BoardAsked(NamedTuple):
    """A dashboard as somebody sees it: its panels for a range and, where some are about one, a job."""

    name: str
    panels: Sequence[Panel]
    range_s: int
    job: str


def dashboards(*, by_team: bool = False) -> dict[str, Any]:
    """All dashboards, with what their panels answer; `by_team`: those that can be made of rows of some teams."""
    return {
        "dashboards": [
            {
                "name": board.name,
                "title": board.title,
                "answers": board.answers,
                "range_s": board.range_s,
                "panels": [_about(panel) for panel in _seen(board, by_team=by_team)],
            }
            for board in DASHBOARDS
        ],
        "ranges_s": RANGES_S,
    }


def _seen(board: Dashboard, *, by_team: bool) -> list[Panel]:
    return [panel for panel in board.panels if not (by_team and is_for_all(panel))]


def board_asked(name: str, asked: Mapping[str, str], *, by_team: bool) -> BoardAsked:
    """What a request for a dashboard asks for.

    Raises:
        ApiError: There is no such dashboard, or a parameter is wrong.
    """
    board = next((each for each in DASHBOARDS if each.name == name), None)
    if board is None:
        raise ApiError(404, f"dashboard {name!r}: there is none; /api/v1/dashboards has their names")
    range_s = RANGES_S.get(asked["range"]) if "range" in asked else board.range_s
    if range_s is None:
        raise ApiError(400, f"range: got {asked['range']!r}, expected one of {', '.join(RANGES_S)}")
    job, panels = asked.get("job", ""), _seen(board, by_team=by_team)
    if not job and any(panel.needs_job for panel in panels):
        raise ApiError(400, f"dashboard {name!r} is about one job: name it (job=...)")
    return BoardAsked(name, panels, range_s, job)


async def write_board(
    asked: BoardAsked,
    as_of_ms: int,
    partial: str,
    service: QueryService,
    client: Client,
    write: Callable[[bytes], Awaitable[None]],
) -> None:
    """Write lines of JSON: the range, which ends at the instant of the figures, then each panel as it is answered.

    A panel that cannot be answered has an `error` with its `status`; where nothing has happened yet there is no range and no panel. `partial` says whose rows alone they are of.
    """
    head = {"name": asked.name, "as_of_ms": as_of_ms, **({"partial": partial} if partial else {})}
    if not as_of_ms:
        await write(to_json({**head, "from_ms": None, "to_ms": None}) + b"\n")
        return
    to_s = as_of_ms // 1_000 + 1
    span = Range(to_s - asked.range_s, to_s, step_of(to_s - asked.range_s, to_s))
    await write(to_json({**head, **span.as_json()}) + b"\n")
    waiting, writing = iter(asked.panels), asyncio.Lock()

    async def ask_next() -> None:
        for panel in waiting:
            line = await _line(panel, span, asked.job, service, client)
            async with writing:
                await write(line)

    async with asyncio.TaskGroup() as asking:
        for _ in range(_AT_ONCE):
            asking.create_task(ask_next())


async def _line(panel: Panel, span: Range, job: str, service: QueryService, client: Client) -> bytes:
    try:
        found = await _answered(panel, span, job, service, client)
    except ApiError as fault:
        error = {"status": fault.status, "code": fault.code, "message": fault.message}
        found = to_json({"name": panel.name, "error": error})
    return found + b"\n"


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


async def panel_answer(name: str, asked: Mapping[str, str], service: QueryService, client: Client) -> bytes:
    """The rows of a panel, as JSON: times in ms since 1970, money as decimal strings; `sql` is what was asked, with its parameters filled in.

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
    return await _answered(panel, span, job, service, client)


async def _answered(panel: Panel, span: Range, job: str, service: QueryService, client: Client) -> bytes:
    values: dict[str, Parameter] = {**span._asdict(), "job": job}
    parameters = {each: values[each] for each in sorted(panel.parameters)}
    async with service.answered(panel.sql, parameters, "json", client, is_own=True) as answer:
        data = await _THREADS.run(os.pread, answer.descriptor, answer.size_bytes, 0)
    about = to_json({"name": panel.name, **span.as_json(), "sql": filled(panel, span, job)})
    # Columns, types and rows are an object of JSON already.
    return about[:-1] + b"," + data[1:]


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
