"""Requests over every route and statements of SQL, made by chance, of a viewer of one team: none tells of the other one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkError
from sinks.query.arrow import MEDIA_TYPE
from sinks.query.team_rows import FILTERS, READABLE, VIEWS, TeamBound
from streams.panels.registry import DASHBOARDS, PANELS
from streams.web.panels import RANGES_S
from streams.web.routes import Route, Routes
from streams.web.security import BY_TEAM
from streams.web.store_reader import StoreReader, TeamReader
from tests.web.marked_store import MARKER, NUMBER, OTHER, OTHER_ALERT, OTHER_JOB, OWN, OWN_ALERT, OWN_JOB
from tests.web.serving import Client, served
from tests.web.test_rows_by_team import BOUND, ORACLES, RECORD, asked, marked

__all__ = ["marked"]

REQUESTS: Final = 1_000
STATEMENTS: Final = 500
#: By so many servers one after another: each has a minute.
SERVED: Final = 5
SEED: Final = 47
#: Names of both teams that a path or parameter may have.
NAMES: Final = (
    OWN_JOB,
    OTHER_JOB,
    OWN,
    OTHER,
    OWN_ALERT,
    OTHER_ALERT,
    *(f"{who}-{each}" for who in ("own", MARKER) for each in ("budget", "experiment", "owner", "project", "node", "name")),
)  # fmt: skip
PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "q": NAMES,
    "state": ("live", "ended", "running"),
    "owner": NAMES,
    "team": NAMES,
    "project": NAMES,
    "experiment": NAMES,
    "group": ("sweep",),
    "order": ("burn", "cost", "started", "name"),
    "by": ("team", "owner", "job", "node", "cluster"),
    "per": ("day", "month", "all"),
    "instance": ("p5.48xlarge",),
    "region": ("eu-1",),
    "spot_share": ("0.5",),
    "idle_cut": ("0.5",),
    "tz": ("UTC", "Europe/Berlin"),
    "metric": ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "cost", "idle"),
    "where": tuple(f"{level}={name}" for level in ("team", "owner", "job") for name in NAMES),
    "budget": NAMES,
    "kind": ("job", "team", "owner"),
    "name": NAMES,
    "id": NAMES,
    "job": NAMES,
    "limit": ("1", "100"),
    "names": ("0", "1"),
    "status": ("firing", "resolved"),
    "rule": ("burn_fast",),
    "currency": ("EUR",),
    "format": ("json", "text", "csv"),
    "at_ms": ("1780308000000",),
    "from_ms": ("1780300000000",),
    "to_ms": ("1780308000000",),
    "drivers": ("1",),
    "dir": ("asc", "desc"),
    "firing": ("1",),
}
_CONDITIONS: Final = (
    "1",
    "startsWith({text}, 'zqx')",
    "throwIf(startsWith({text}, 'zqx')) = 0",
    "intDiv(1, NOT startsWith({text}, 'zqx')) = 1",
    "{text} IN (SELECT {text} FROM {table} WHERE throwIf(startsWith({text}, 'zqx')) = 0)",
    "{text} > '' AND length({text}) > 0 OR throwIf(startsWith({text}, 'zqx'))",
    "{text} = (SELECT max({text}) FROM {table})",
)
_FORMS: Final = (
    "SELECT * FROM {table} WHERE {condition}",
    "SELECT DISTINCT {text} FROM {table} WHERE {condition} ORDER BY {text} DESC LIMIT 3",
    "SELECT count(), uniq({text}), max({text}), groupArray({text}) FROM {table} WHERE {condition}",
    "SELECT {text}, count() FROM {table} WHERE {condition} GROUP BY {text} WITH TOTALS",
    "WITH x AS (SELECT * FROM {table}) SELECT a.{text}, b.* FROM x AS a JOIN x AS b ON a.{text} = b.{text} WHERE {of_a}",
    "SELECT * FROM (SELECT * FROM {table} FINAL) AS jobs WHERE {condition}",
    "SELECT * FROM view(SELECT {text} FROM {table} WHERE {condition})",
    "SELECT * FROM numbers(3) AS n LEFT JOIN (SELECT {text}, 0 AS number FROM {table} WHERE {condition}) AS t ON n.number = t.number",
    "SELECT {text} FROM {table} WHERE {condition} UNION ALL SELECT toString(count()) FROM {table} AS alerts",
    "SELECT * FROM {table} PREWHERE {condition}",
    "SELECT _part, {text} FROM {table}",
    "SELECT toInt64({text}) FROM {table} WHERE {condition}",
    "SELECT {text} FROM {table} LIMIT 1 BY {text} SETTINGS max_rows_to_read = 1",
    "EXPLAIN SELECT * FROM {table} WHERE {condition}",
    "SELECT arrayJoin([{text}, 'z']), row_number() OVER (ORDER BY {text}) FROM {table} WHERE {condition}",
    "SELECT {text} FROM {table} WHERE {condition} QUALIFY count() OVER () > 0",
    "DESCRIBE TABLE {table}",
)
#: What a statement that was tried on a row of the other team would be answered.
TRIED: Final = (b"FUNCTION_THROW_IF_VALUE_IS_NON_ZERO", b"ILLEGAL_DIVISION")


def told(body: bytes, words: list[str]) -> bool:
    """Whether an answer has more of the other team than what was asked with."""
    text = body.decode(errors="replace")
    for word in sorted(words, key=len, reverse=True):
        text = text.replace(word, "").replace(quote(word), "")
    return MARKER in text or str(NUMBER) in text


def words_for(chance: random.Random, route: Route) -> list[str]:
    """Two names of one kind, the first one for the path: mostly what the path is about."""
    fitting: tuple[str, ...] = NAMES
    if chance.random() < 0.8:
        of = (
            ("{job_id", (OWN_JOB, OTHER_JOB)),
            ("{alert_id", (OWN_ALERT, OTHER_ALERT)),
            ("/panels/", (*PANELS,)),
            ("/dashboards/", tuple(board.name for board in DASHBOARDS)),
        )
        fitting = next((names for part, names in of if part in route.path), NAMES)
    return chance.sample(fitting, 2)


def answer_of(client: Client, chance: random.Random, route: Route) -> tuple[Any, list[str]]:
    """A request to a route, and the words that it is made with."""
    words = words_for(chance, route)
    path = route.path.replace(":[^/]+", "").replace(":.+", "")
    for field in ("job_id", "alert_id", "name", "month", "path"):
        path = path.replace(f"{{{field}}}", quote(words[0], safe=""))
    given = {each: chance.choice(PARAMETERS[each]) for each in chance.sample([*PARAMETERS], chance.choice((0, 0, 0, 1, 2)))}  # fmt: skip
    if "/panels/" in path:
        given = {"from_ms": "1780300000000", "to_ms": "1780394400000", "job": chance.choice(NAMES)}
    elif "/dashboards/" in path:
        given = {"range": chance.choice((*RANGES_S,)), "job": chance.choice(NAMES)}
    elif "/job" in path and "{job_id" not in route.path:
        given = {"id": chance.choice((OWN_JOB, OTHER_JOB))}
    if given:
        path += f"?{urlencode(given)}"
    body = {"job_id": words[1], "name": words[0], "kind": "silence", "sql": "SELECT 1", "id": words[0]}
    asks = client.session.request(
        route.method,
        client.server.url + path,
        headers=BOUND,
        json=body if route.method == "POST" else None,
        allow_redirects=False,
    )
    return asks, [*words, *given.values()]


ALL_ROUTES: Final = [
    route
    for route in Routes(None).table()  # type: ignore[arg-type]  # only the paths are looked at
    if route.path != "/api/v1/stream"  # it has no end; the other test reads it
]


def test_no_request_tells_of_another_team(marked: ClickHouseStore) -> None:
    chance = random.Random(SEED)
    statuses: Counter[int] = Counter()
    answered: set[str] = set()

    async def work(client: Client) -> None:
        for number in range(REQUESTS // SERVED):
            route = ALL_ROUTES[(begin + number) % len(ALL_ROUTES)]
            asks, words = answer_of(client, chance, route)
            async with asks as answer:
                found = await answer.read()
                statuses[answer.status] += 1
                if answer.status == 200:
                    answered.add(f"{route.method} {route.path.replace(':[^/]+', '')}")
                assert answer.status not in (500, 501), (answer.url, found)
                assert not told(found, words), (answer.url, found)
                assert not told(str(answer.headers).encode(), words), (answer.url, answer.headers)

    for begin in range(0, REQUESTS, REQUESTS // SERVED):  # noqa: B007 - read by `work`
        served(marked, work, filed=RECORD)
    assert statuses[200] > 200
    assert statuses[403] > 200
    # Most of what is for teams was told of the own one; chance leaves out some.
    assert len({f"GET {path}" for path in BY_TEAM} & answered) >= 20


def test_a_planted_hole_is_found(marked: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """By each reader that a handler may have: one that forgets the teams tells of the other one."""

    async def unbound_rows(self: TeamReader, sql: str, **parameters: object) -> list[dict[str, Any]]:
        return await StoreReader.rows(self._reader, sql, **parameters)

    async def unbound_work(self: TeamReader, work: Any) -> Any:
        return await StoreReader.run(self._reader, work)

    below = [route for route in ALL_ROUTES if "{job_id" in route.path or "{alert_id" in route.path]

    async def tells(client: Client) -> set[str]:
        chance, found = random.Random(SEED), set[str]()
        for route in below * 6:
            asks, words = answer_of(client, chance, route)
            async with asks as answer:
                if told(await answer.read(), words):
                    found.add(route.path.rpartition("/")[2])
        return found

    assert served(marked, tells, filed=RECORD) == set()
    with monkeypatch.context() as planted:
        planted.setattr(TeamReader, "rows", unbound_rows)
        assert served(marked, tells, filed=RECORD)
    with monkeypatch.context() as planted:
        planted.setattr(TeamReader, "explained", unbound_work)
        assert served(marked, tells, filed=RECORD) >= {"explain"}


def statement(chance: random.Random) -> str:
    table = chance.choice(sorted({*SCHEMAS, *READABLE, "idle_hours", "m3_unallocated_ratio"}))
    texts = [each.name for each in SCHEMAS[table] if str(each.type) == "string"] if table in SCHEMAS else []
    text = chance.choice(texts or ["job_id", "team", "name", "level"])
    words = {"table": table, "text": text}
    condition = chance.choice(_CONDITIONS).format(**words)
    of_a = f"throwIf(startsWith(a.{text}, 'zqx')) = 0"
    return chance.choice(_FORMS).format(**words, condition=condition, of_a=of_a)


def test_no_generated_statement_tells_of_another_team(marked: ClickHouseStore) -> None:
    chance = random.Random(SEED)
    statuses: Counter[int] = Counter()

    async def work(client: Client) -> None:
        for _ in range(STATEMENTS // SERVED):
            sql = statement(chance)
            status, body, headers = await asked(client, sql, chance.choice(("application/json", MEDIA_TYPE)))
            statuses[status] += 1
            assert status in (200, 400), (sql, body)
            assert not told(body, []), (sql, body)
            assert not any(each in body for each in TRIED), (sql, body)
            assert "X-Rows-Read" not in headers

    for _ in range(SERVED):
        served(marked, work, filed=RECORD)
    assert statuses[200] > STATEMENTS // 5


def fails(store: ClickHouseStore, sql: str, settings: dict[str, str]) -> bool:
    try:
        found = store.ask(sql, None, settings)
    except (SinkError, ClickHouseError):
        return True
    return any(MARKER in str(cell) for row in found.rows() for cell in row)


def test_a_filter_that_is_not_first_or_not_there_is_found(marked: ClickHouseStore) -> None:
    bound = TeamBound((OWN,), marked.target.database, frozenset(SCHEMAS))
    first = bound.settings_of_users()
    assert not [sql for sql in ORACLES if fails(marked, sql, first)]
    last = {**bound.settings(), "final": "0"}
    assert [sql for sql in ORACLES if fails(marked, sql, last)], (
        "by its own settings ClickHouse tries rows of others"
    )
    assert all(fails(marked, f"SELECT * FROM {table}", {}) for table in FILTERS)
    assert not [table for table in (*FILTERS, *VIEWS) if fails(marked, f"SELECT * FROM {table}", first)]
    unlisted = [
        table for table in SCHEMAS if table not in READABLE and fails(marked, f"SELECT * FROM {table}", first)
    ]
    assert unlisted == ["allocated_months"] or not unlisted
