"""The list of jobs: what a client may ask of it, and a page of it with its figures.

Pages follow a cursor, not a number: it names the last row that was seen, so that jobs that begin and end meanwhile
shift nothing, and the five hundredth page takes as long as the first.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from streams.web import job_list_sql, queries
from streams.web.errors import ApiError
from streams.web.figures import ApiFigures, chunks
from streams.web.job_list_sql import ORDERS, JobSelection
from streams.web.store_reader import Row, StoreReader

Object = dict[str, Any]

LIMIT_MAX: Final = 1_000
WORDS_MAX: Final = 12
Q_MAX_BYTES: Final = 1_024
_NAME_MAX_BYTES: Final = 1_024
_STATES: Final = ("live", "ended", *queries.LIVE_STATES, "preempted", "failed", "completed", "cancelled")
_NAMES: Final = ("owner", "team", "project", "experiment", "sweep")
#: The parameters of a list, beside `limit`.
PARAMETERS: Final = frozenset({"q", "state", *_NAMES, "firing", "group", "order", "dir", "cursor", "limit"})
_DIRECTIONS: Final = {"asc": True, "desc": False}
_ALL: Final = JobSelection()


class Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place in a list: one of its rows, and whether the page before or after it is asked for."""

    to: str
    order: str
    ascending: bool
    keys: tuple[str, ...]
    is_sweep: bool
    name: str

    @property
    def text(self) -> str:
        """As it stands in an address."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @property
    def parameters(self) -> dict[str, object]:
        """The values of the statement's parameters."""
        at: dict[str, object] = {f"at{place}": key for place, key in enumerate(self.keys)}
        return at | {"at_name": self.name, "at_sweep": int(self.is_sweep)}


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What is asked of the list."""

    selection: JobSelection = _ALL
    order: str = "burn"
    ascending: bool = False
    is_grouped: bool = False
    limit: int = 100
    cursor: Cursor | None = None


def request_of(asked: Mapping[str, str]) -> ListRequest:
    """The request with these parameters.

    Raises:
        ApiError: One of them is wrong.
    """
    order = one_of("order", asked.get("order") or "burn", tuple(ORDERS))
    direction = one_of("dir", asked.get("dir", ""), ("", *_DIRECTIONS))
    ascending = _DIRECTIONS.get(direction, ORDERS[order].ascending)
    names = {name: _named(name, asked.get(name, "")) for name in _NAMES}
    selection = JobSelection(
        words=words_of(asked.get("q", "")),
        state=one_of("state", asked.get("state", ""), ("", *_STATES)),
        is_firing=_flag("firing", asked.get("firing", "")),
        **names,
    )
    cursor = _cursor_of(asked.get("cursor", ""), order, ascending=ascending)
    is_grouped = one_of("group", asked.get("group", ""), ("", "sweep")) == "sweep"
    return ListRequest(selection, order, ascending, is_grouped, limit_of(asked), cursor)


def words_of(text: str) -> tuple[str, ...]:
    """The words to search for, each once; every character stands for itself.

    Raises:
        ApiError: There are too many, or they are too long.
    """
    if len(text.encode("utf-8", "surrogatepass")) > Q_MAX_BYTES:
        raise ApiError(400, f"q: longer than {Q_MAX_BYTES} bytes; search for a part of the name")
    words = tuple(dict.fromkeys(text.split()))
    if len(words) > WORDS_MAX:
        raise ApiError(400, f"q: got {len(words)} words, expected at most {WORDS_MAX}")
    for word in words:
        _encodable("q", word)
    return words


def limit_of(asked: Mapping[str, str]) -> int:
    """How many rows are wanted.

    Raises:
        ApiError: It is no number, or too large.
    """
    given = asked.get("limit", "100")
    if not given.isascii() or not given.isdecimal() or not 1 <= int(given[:9]) <= LIMIT_MAX:
        raise ApiError(400, f"limit: got {given!r}, expected 1 to {LIMIT_MAX}")
    return int(given)


def one_of(name: str, given: str, allowed: tuple[str, ...]) -> str:
    """The value, which is one of those allowed.

    Raises:
        ApiError: It is another.
    """
    if given not in allowed:
        raise ApiError(400, f"{name}: got {given!r}, expected one of {', '.join(filter(None, allowed))}")
    return given


def _flag(name: str, given: str) -> bool:
    return one_of(name, given, ("", "0", "1")) == "1"


def _named(name: str, given: str) -> str:
    if len(given.encode("utf-8", "surrogatepass")) > _NAME_MAX_BYTES:
        raise ApiError(400, f"{name}: longer than {_NAME_MAX_BYTES} bytes; no name is")
    return _encodable(name, given)


def _encodable(name: str, given: str) -> str:
    # A NUL ends a parameter on its way into the store, and no name has one.
    if "\0" in given or (not given.isascii() and _has_surrogate(given)):
        raise ApiError(400, f"{name}: got {given!r}, expected text without NUL, in UTF-8")
    return given


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= each <= "\udfff" for each in text)


def _cursor_of(text: str, order: str, *, ascending: bool) -> Cursor | None:
    if not text:
        return None
    wrong = ApiError(
        400,
        "cursor: got what is not one of this list; take `next` or `previous` of an answer with the same order, "
        "or begin again without it",
    )
    try:
        padded = text + "=" * (-len(text) % 4)
        found = msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=Cursor)
    except (ValueError, msgspec.DecodeError) as fault:
        raise wrong from fault
    by = ORDERS[order]
    fits = (found.order, found.ascending, len(found.keys)) == (order, ascending, len(by.keys))
    if not fits or found.to not in ("next", "previous"):
        raise wrong
    for text_ in (*found.keys, found.name):
        _encodable("cursor", text_)
    if not by.is_text and not all(_is_amount(key) for key in found.keys):
        raise wrong
    return found


def _is_amount(text: str) -> bool:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return False
    return amount.is_finite() and abs(amount) < 10**28 and len(text) < 60


class JobList:
    """Pages of the list, cached like the other figures."""

    def __init__(self, store_reader: StoreReader, figures: ApiFigures) -> None:
        self._store_reader = store_reader
        self._figures = figures

    async def page(self, request: ListRequest) -> Object:
        """The rows asked for, how many there are, and where the pages beside it begin."""

        async def make() -> Object:
            return await self._made(request)

        return await self._figures.kept(("jobs", request), make)

    async def _made(self, request: ListRequest) -> Object:
        as_of_ms = await self._figures.as_of_ms()
        bound = {
            "since_ms": max(as_of_ms - queries.LIVE_MS, 0),
            "until_ms": as_of_ms,
            "used_since_ms": max(as_of_ms - queries.USAGE_MS, 0),
            **request.selection.parameters,
        }
        rows = await self._rows(request, bound)
        total = await self._total(request.selection)
        cursor, backwards = request.cursor, request.cursor is not None and request.cursor.to == "previous"
        if backwards:
            rows.reverse()
        if rows:
            counted = rows[0]
        elif cursor is None:
            counted = {"rows_matched": 0, "jobs_matched": 0, "rows_before": 0}
        else:  # all that was there has ended since
            first = await self._rows(replace(request, cursor=None, limit=1), bound)
            counted = {"jobs_matched": 0, "rows_matched": 0, **(first[0] if first else {})}
            counted["rows_before"] = counted["rows_matched"] if not backwards else 0
        position = counted["rows_before"] - (len(rows) if backwards else 0)
        left = counted["rows_matched"] - position - len(rows)
        return {
            "as_of_ms": as_of_ms,
            "jobs": await self._objects(request, rows, bound),
            "total": total,
            "matched": int(counted["jobs_matched"]),
            "rows": counted["rows_matched"],
            "position": position,
            "next": self._cursor(request, rows[-1], "next") if rows and left > 0 else None,
            "previous": self._cursor(request, rows[0], "previous") if rows and position > 0 else None,
        }

    async def _rows(self, request: ListRequest, bound: Mapping[str, object]) -> list[Row]:
        cursor = request.cursor
        sql = job_list_sql.page(
            request.selection,
            request.order,
            ascending=request.ascending,
            is_grouped=request.is_grouped,
            cursor=None if cursor is None else cursor.to,
        )
        at = {} if cursor is None else cursor.parameters
        return await self._store_reader.rows(sql, limit=request.limit, **bound, **at)

    async def _total(self, selection: JobSelection) -> int:
        scope = JobSelection(state=selection.state)

        async def make() -> int:
            rows = await self._store_reader.rows(job_list_sql.total(scope), **scope.parameters)
            return int(rows[0]["jobs"])

        return await self._figures.kept(("jobs total", scope), make)

    def _cursor(self, request: ListRequest, row: Row, to: str) -> str:
        keys = tuple(
            f"{key:f}" if isinstance(key := row[f"key{place}"], Decimal) else str(key)
            for place in range(len(ORDERS[request.order].keys))
        )
        is_sweep = bool(row["is_sweep"])
        return Cursor(to, request.order, request.ascending, keys, is_sweep, row["name"]).text

    async def _objects(
        self, request: ListRequest, rows: Sequence[Row], bound: Mapping[str, object]
    ) -> list[Object]:
        names = [row["name"] for row in rows if not row["is_sweep"]]
        jobs = {each["job_id"]: each for each in await self._figures.some(names)}
        if request.selection.words:
            for job_id, nodes in (await self._nodes(names, request.selection, bound)).items():
                if job_id in jobs:
                    jobs[job_id] = {**jobs[job_id], "nodes": nodes}
        swept = [row["name"] for row in rows if row["is_sweep"]]
        sweeps = await self._sweeps(swept, request.selection, bound)
        found = (sweeps.get(row["name"]) if row["is_sweep"] else jobs.get(row["name"]) for row in rows)
        return [each for each in found if each is not None]

    async def _nodes(
        self, names: Sequence[str], selection: JobSelection, bound: Mapping[str, object]
    ) -> dict[str, list[str]]:
        sql = job_list_sql.nodes(len(selection.words))
        words = {
            name: value for name, value in bound.items() if name.startswith("word") or name == "since_ms"
        }
        found: dict[str, list[str]] = {}
        for some in chunks(names):
            for row in await self._store_reader.rows(sql, jobs=some, **words):
                found[row["job_id"]] = row["nodes"]
        return found

    async def _sweeps(
        self, keys: Sequence[str], selection: JobSelection, bound: Mapping[str, object]
    ) -> dict[str, Object]:
        found: dict[str, Object] = {}
        firing = await self._figures.firing() if keys else {}
        for some in chunks(keys):
            for row in await self._store_reader.rows(job_list_sql.sweeps(selection), sweeps=some, **bound):
                found[row["sweep"]] = _sweep(row, firing)
        return found


def _sweep(row: Row, firing: Mapping[str, list[Object]]) -> Object:
    """A row of the list for all the jobs of a sweep: its figures are their sums, its means those of what all of them cost."""
    kind, _, rest = row["sweep"].partition(":")
    name = row["one_experiment"] if kind == "experiment" else rest.partition("/")[2]
    rates = {window: row[f"sum_{window}"] for window in queries.WINDOWS}
    expected = rates["expected_usd_per_hour"]
    return {
        "job_id": None,
        "sweep": {"key": row["sweep"], "by": kind, "name": name, "jobs": row["jobs"], "owners": row["owners"]},
        **{each: row[f"one_{each}"] for each in ("owner", "team", "project", "experiment", "state", "gpu_type")},
        "gpu_count": row["gpus"],
        "started_ms": row["started_ms"],
        "ended_ms": None,
        **rates,
        "ratio": float(rates["usd_per_hour_now"] / expected) if expected else None,
        **{total: row[f"sum_{total}"] for total in job_list_sql.TOTALS},
        "unpriced_compute_h": row["unpriced_compute_h"],
        "productive_ratio": row["use"],
        "sparkline": [],
        "alerts": [alert for job_id in row["firing"] for alert in firing.get(job_id, [])],
    }  # fmt: skip
