"""Hostile statements do nothing: no file is read, made or changed, nobody is called, and the next query is answered as ever."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed, QueryRefused
from sinks.query import QueryLimits, QueryProcess, StoreFiles
from sinks.query.limits import MIB_BYTES
from sinks.query.session import Parser, local_client
from streams.config.settings import QuerySettings
from tests.query import bombs
from tests.query.attacks import Attack, Canary
from tests.query.hostile import all_attacks
from tests.web.log import COST_A
from tests.web.serving import LOCAL_TOKEN, Client, served

#: Honest queries are asked under the same limits, and the first one opens the store: on a busy machine in over a second.
LIMITS = QueryLimits(time_ms=5_000, memory_bytes=64 * MIB_BYTES)
#: In `make test` each seventh attack is tried, beginning with the first of each kind; all of them by `make test-long`.
EACH, EACH_HTTP = 7, 40
#: The settings of a session are those of its start, and answers are whole.
HONEST = {
    "SELECT job_id, cost_usd FROM job_costs WHERE job_id = 'a'": [["a", COST_A]],
    "SELECT number FROM numbers(3)": [[0], [1], [2]],
    "SELECT NULL IN (NULL), sumOrNull(1) FROM numbers(0)": [[None, None]],
    "SELECT sum(x) FROM (SELECT 1 AS x WHERE 0)": [[0]],
    "SELECT count() FROM (SELECT number FROM numbers(70000))": [[70_000]],
}


class Asked:
    """Asks a query process, and starts another one when that is spent."""

    def __init__(self, source: StoreFiles) -> None:
        self._source = source
        self._process = QueryProcess(source, LIMITS)

    def outcome(self, attack: Attack) -> tuple[str, str]:
        """How it went, and what was said or answered."""
        try:
            return "answered", json.dumps(self.rows(attack), ensure_ascii=False)
        except (QueryRefused, QueryFailed) as fault:
            return "refused", str(fault)

    def rows(self, attack: Attack) -> list[list[object]]:
        """The rows of an answer."""
        if not self._process.reusable:
            self.close()
            self._process = QueryProcess(self._source, LIMITS)
        answer = self._process.ask(attack.sql, attack.parameters, "json")
        with os.fdopen(answer.descriptor, "rb") as file:
            file.seek(0)
            found: list[list[object]] = json.loads(file.read())["rows"]
            return found

    def honest(self) -> None:
        """The next honest query is answered, whole."""
        for sql, wanted in HONEST.items():
            assert self.rows(Attack("honest", sql)) == wanted

    def close(self) -> None:
        self._process.close()


@pytest.fixture(scope="module")
def attacks(tmp_path_factory: pytest.TempPathFactory) -> list[Attack]:
    client = local_client(str(tmp_path_factory.mktemp("engine")))
    try:
        return all_attacks(Parser(client))
    finally:
        client.close()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("scratch"))
    yield Path(tempfile.tempdir)
    tempfile.tempdir = before


@pytest.fixture(scope="module")
def data(replayed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody else has open, so that whatever changes in it was changed by a query."""
    data = tmp_path_factory.mktemp("hostile") / "meter"
    shutil.copytree(replayed, data, symlinks=True)
    return data


@pytest.fixture
def canary(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    canary = Canary.made(tmp_path / "canary", secrets.token_hex(8), [data, cwd])
    yield canary
    canary.close()


@pytest.fixture
def asked(data: Path, scratch: Path, canary: Canary) -> Iterator[Asked]:
    asked = Asked(StoreFiles(str((data / "clickhouse").resolve()), "trainfare"))
    try:
        yield asked
    finally:
        asked.close()
    assert list(scratch.iterdir()) == []


def some(attacks: list[Attack], each: int) -> list[Attack]:
    """The first attack of each kind, and one of so many of the others."""
    kinds: dict[str, list[Attack]] = {}
    for attack in attacks:
        kinds.setdefault(attack.kind, []).append(attack)
    return [attack for of_kind in kinds.values() for attack in of_kind[::each]]


def attacked(asked: Asked, canary: Canary, chosen: list[Attack], data: Path) -> None:
    asked.honest()
    before = canary.seen()
    wrong = []
    for attack in map(canary.aimed, chosen):
        outcome, said = asked.outcome(attack)
        if outcome == "answered" and not attack.may_answer:
            wrong.append((attack, f"was answered: {said[:100]}"))
        if reveals(said, canary, data):
            wrong.append((attack, f"said too much: {said[:300]}"))
    assert wrong == []
    assert not canary.heard()
    assert canary.seen() == before
    asked.honest()


def reveals(said: str, canary: Canary, data: Path) -> bool:
    """Whether an answer or a fault holds what stands in our file, where the store is, or more than a line."""
    inside = (canary.secret, str(data), "trainfare-query-", "root:x:0")
    return any(word in said for word in inside) or "\n" in said


def test_there_are_far_more_than_five_hundred(attacks: list[Attack]) -> None:
    assert len(attacks) > 2_000
    assert len({attack.kind for attack in attacks}) >= 15


def test_hostile_statements_do_nothing(
    asked: Asked, canary: Canary, attacks: list[Attack], data: Path
) -> None:
    attacked(asked, canary, some(attacks, EACH), data)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_hostile_statements_do_nothing(
    asked: Asked, canary: Canary, attacks: list[Attack], data: Path
) -> None:
    attacked(asked, canary, attacks, data)


def test_a_canary_that_is_touched_shows(canary: Canary, data: Path) -> None:
    before = canary.seen()
    (canary.folder / "made.csv").touch()
    assert canary.seen() != before
    with socket.create_connection(canary.tcp.getsockname()):
        assert canary.heard()
    assert not canary.heard()
    assert reveals(f"x {canary.secret}", canary, data)
    assert reveals(f"in {data}/clickhouse", canary, data)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "sql", [bombs.TIME[0], bombs.TIME[2], bombs.MEMORY[0], bombs.MEMORY[1], bombs.PARSER[0], bombs.PARSER[4]]
)
def test_a_bomb_ends_within_its_limits(sql: str, asked: Asked) -> None:
    blown(sql, asked)


@pytest.mark.long
@pytest.mark.timeout(30)
@pytest.mark.parametrize("sql", [*bombs.TIME, *bombs.MEMORY, *bombs.PARSER], ids=lambda sql: sql[:60])
def test_each_bomb_ends_within_its_limits(sql: str, asked: Asked) -> None:
    blown(sql, asked)


def blown(sql: str, asked: Asked) -> None:
    """It fails, or is cheaper than it looks; whoever asks next is answered."""
    outcome, said = asked.outcome(Attack("bomb", sql, {"x": "x"} if "{x:" in sql else {}))
    assert outcome == "refused" or sql in bombs.CHEAP
    assert outcome == "answered" or (re.search(bombs.SAID, said) and len(said) < 2_000), said[:300]
    asked.honest()


# The attacks come before the store: they ask an engine of their own, and a process has one at a time.
def test_over_http_they_are_refused_as_well(
    attacks: list[Attack], store: ClickHouseStore, tmp_path: Path
) -> None:
    canary = Canary.made(tmp_path / "canary", secrets.token_hex(8), [])
    before = canary.seen()

    async def work(client: Client) -> None:
        for attack in map(canary.aimed, some(attacks, EACH_HTTP)):
            body = {"sql": attack.sql, "parameters": attack.parameters}
            url = f"{client.server.url}/api/v1/query"
            headers = {"Authorization": f"Bearer {LOCAL_TOKEN}"}
            async with client.session.post(url, json=body, headers=headers) as answer:
                text = await answer.text()
                assert answer.status in ((200, 400, 413) if attack.may_answer else (400, 413)), (
                    attack,
                    text[:200],
                )
                assert canary.secret not in text
        for sql, rows in HONEST.items():
            assert (await client.ask({"sql": sql}))["rows"] == rows

    served(store, work, query=QuerySettings(max_execution_time_ms=5_000, max_memory_bytes=64 * MIB_BYTES))
    assert not canary.heard()
    assert canary.seen() == before
    canary.close()
