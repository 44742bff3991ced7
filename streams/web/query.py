"""POST /api/v1/query: one statement that only reads, within bounds, answered as JSON or as an Arrow stream.

It must not be the guard: `sinks.clickhouse.guard` is, and ClickHouse's read-only mode behind it.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from aiohttp import web

from sinks.clickhouse import Answer, ClickHouseStore, guard
from sinks.errors import QueryFailed
from streams.web import arrow
from streams.web.asking import Asker
from streams.web.encode import plain, to_json
from streams.web.errors import ApiError

#: A question runs so long, and its answer weighs so much, at most; a worker that stops waits for it.
RUNS_MAX_S: Final = 30
ANSWER_MAX_BYTES: Final = 256 * 2**20
# Atomic: a row of comments could else be read in 2^n ways, each of which would be tried.
_BLANK: Final = r"(?>\s|--[^\n]*\n|/\*.*?\*/)"
_SELECTS: Final = re.compile(rf"(?>{_BLANK}|\()*+(?:SELECT|WITH|FROM)\b", re.IGNORECASE | re.DOTALL)
_HAS_SETTINGS: Final = re.compile(r"\bSETTINGS\b", re.IGNORECASE)
_PARENTHESIS: Final = re.compile(rf"{_BLANK}*+\(", re.DOTALL)
_BOUNDS: Final = f"SETTINGS max_execution_time = {RUNS_MAX_S}, max_result_bytes = {ANSWER_MAX_BYTES}"


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    sql: str
    parameters: dict[str, str | int | float | bool | list[str | int]] = {}


async def query(request: web.Request, asker: Asker) -> web.Response:
    """Answer one question."""
    if request.content_type != "application/json":
        # Another site's page could send the other types without asking first.
        raise ApiError(415, "send application/json")
    body = _parsed(await request.read())
    as_arrow = arrow.MEDIA_TYPE in request.headers.get("Accept", "")

    def work(store: ClickHouseStore) -> bytes:
        statement = bounded(body.sql)  # here, as a long question takes its time to read
        try:
            answer = store.ask(statement, body.parameters)
        except QueryFailed as fault:
            # ClickHouse quotes the statement, with what was put behind it.
            raise QueryFailed(str(fault).replace(f" {_BOUNDS}", "")) from fault
        return arrow.encode(answer) if as_arrow else to_json(_object(answer))

    data = await asker.run(work)
    return web.Response(body=data, content_type=arrow.MEDIA_TYPE if as_arrow else "application/json")


def bounded(sql: str) -> str:
    """The statement with bounds on its time and answer; SETTINGS of its own hold inside, and loosen none of them."""
    if not _SELECTS.match(sql):
        return sql
    # The store asks the guard again, with the names of all table functions; here it only takes the `;` off.
    statement = guard.check(sql, ())
    if _HAS_SETTINGS.search(sql) or _PARENTHESIS.match(sql):
        statement = f"SELECT * FROM (\n{statement}\n)"
    return f"{statement}\n{_BOUNDS}"


def _parsed(data: bytes) -> _Body:
    try:
        return msgspec.json.decode(data, type=_Body)
    except msgspec.DecodeError as fault:
        raise ApiError(400, f'expected {{"sql": "...", "parameters": {{...}}}}: {fault}') from fault


def _object(answer: Answer) -> dict[str, Any]:
    rows = [[plain(cell) for cell in row] for row in answer.rows()]
    return {"columns": answer.names, "types": answer.types, "rows": rows}
