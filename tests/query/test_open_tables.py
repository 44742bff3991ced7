"""Tables stay open between queries, and no answer is of files that are no longer those of the store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.tables import JOB_HOURS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from sinks.query import QueryLimits, QueryProcess, open_tables
from sinks.query.open_tables import EmbeddedTables, FileSeen, present
from sinks.query.refusal import FailedQueryError, RefusedQueryError
from sinks.query.session import Parser, local_client
from sinks.query.wire import StoreFiles
from sinks.target import Embedded, query_source
from tests.new_store import begun
from tests.panels.year import table_of
from tests.sinks.stores import embedded

HOUR_S = 1_767_225_600
COST = "SELECT toString(sum(gpu_cost_usd)) FROM job_hours"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path) as made:
        yield made


@pytest.fixture
def process(store: ClickHouseStore) -> Iterator[QueryProcess]:
    made = QueryProcess(query_source(store.target), QueryLimits())
    yield made
    made.close()


def answer(process: QueryProcess, sql: str = COST) -> object:
    found = process.ask(sql, {}, "json")
    with os.fdopen(found.descriptor, "rb") as file:
        file.seek(0)
        return json.loads(file.read())["rows"][0][0]


def put(store: ClickHouseStore, usd: int, version: int, hour_s: int = HOUR_S) -> None:
    columns = {
        "hour": [hour_s],
        "job_id": "a",
        "attempt": 1,
        "wall_clock_ms": 1,
        "gpu_cost_usd": usd,
        "version": version,
    }
    store.insert(JOB_HOURS, table_of(JOB_HOURS, columns), f"{usd} {version} {hour_s}")


def run(store: ClickHouseStore, sql: str) -> None:
    store._connection.call(lambda client: client.command(sql))


def test_what_is_stored_replaced_merged_and_dropped_meanwhile_is_read(
    store: ClickHouseStore, process: QueryProcess
) -> None:
    put(store, 3, version=1)
    assert answer(process) == "3"
    put(store, 5, version=1, hour_s=HOUR_S - 40 * 86_400)
    assert answer(process) == "8", "a part more, in another month"
    put(store, 4, version=2)
    assert answer(process) == "9", "the row of the first hour is replaced"
    run(store, "OPTIMIZE TABLE job_hours FINAL")
    assert answer(process) == "9", "its parts are one"
    store.drop_months(JOB_HOURS, 202601)
    assert answer(process) == "4", "a month is gone"


def test_a_column_and_a_view_that_are_made_meanwhile_are_there(
    store: ClickHouseStore, process: QueryProcess
) -> None:
    put(store, 3, version=1)
    assert answer(process) == "3"
    assert answer(process, "SELECT toString(sum(cost_usd)) FROM cost_hours") == "3"
    run(store, "ALTER TABLE job_hours ADD COLUMN doubled_usd Decimal(18, 9) DEFAULT 2 * gpu_cost_usd")
    assert answer(process, "SELECT toString(doubled_usd) FROM job_hours") == "6"
    run(
        store,
        "CREATE OR REPLACE VIEW cost_hours AS SELECT job_id, doubled_usd AS cost_usd FROM job_hours FINAL",
    )
    assert answer(process, "SELECT toString(sum(cost_usd)) FROM cost_hours") == "6"


def test_a_query_that_fails_and_settings_of_another_one_are_not_felt_by_the_next(
    store: ClickHouseStore, process: QueryProcess
) -> None:
    put(store, 1, version=1)
    put(store, 2, version=1, hour_s=HOUR_S + 3_600)
    with pytest.raises(QueryFailed):
        answer(process, "SELECT throwIf(gpu_cost_usd = 1, 'it fails') FROM job_hours")
    with pytest.raises(QueryFailed):
        answer(process, f"{COST} SETTINGS max_rows_to_read = 1")
    assert answer(process) == "3"


def test_statements_of_the_product_say_themselves_where_versions_are_compared(
    store: ClickHouseStore, process: QueryProcess
) -> None:
    """As in a command or in Grafana, where nothing adds FINAL. It is added to those of users."""
    put(store, 3, version=1)
    put(store, 5, version=2)
    own = QueryProcess(query_source(store.target), QueryLimits(is_own=True))
    try:
        assert [answer(own), answer(own, f"{COST} FINAL")] == ["8", "5"]
    finally:
        own.close()
    assert answer(process) == "5"


def test_a_table_is_opened_once_as_long_as_its_files_are_the_same(tmp_path: Path) -> None:
    """The engine counts what it is asked; to open or close a table is one more."""
    target = Embedded(data_dir=begun(tmp_path / "data"))
    files = StoreFiles(str(target.engine_dir), target.database)
    scratch = str(tmp_path / "scratch")
    tables = EmbeddedTables(files, lambda: local_client(scratch, files.engine_dir))

    def asked(settings: dict[str, str]) -> int:
        tables.names()
        with tables.opened(frozenset({"cost_hours"}), settings) as client:
            client.query("SELECT count() FROM cost_hours")
            found = client.query("SELECT value FROM system.events WHERE event = 'Query'").result_rows
            return int(found[0][0])

    asked({"max_threads": "1"})
    first = asked({"max_threads": "1"})
    assert asked({"max_threads": "1"}) - first == 2, "the two of this function"
    tables.forget()
    assert asked({"max_threads": "1"}) - first > 2 + 2 + 2, (
        "the view and both of its tables were closed and opened"
    )


def test_a_statement_is_judged_once_and_its_parameters_each_time(parser: Parser) -> None:
    tables, limits = {"jobs": False}, QueryLimits()
    sql = "SELECT job_id FROM jobs WHERE job_id = {job:String}"

    def asked_of_the_engine() -> int:
        return int(parser.text("SELECT value FROM system.events WHERE event = 'Query'", ""))

    first = parser.prepare(sql, {"job": "a"}, tables, "trainfare", limits)
    before = asked_of_the_engine()
    again = parser.prepare(sql, {"job": "b"}, tables, "trainfare", limits)
    assert asked_of_the_engine() - before == 1, "the one of this function"
    assert (first.sql, first.parameters, again.sql, again.parameters) == (
        first.sql,
        {"job": "a"},
        first.sql,
        {"job": "b"},
    )
    with pytest.raises(FailedQueryError, match="job has no value"):
        parser.prepare(sql, {}, tables, "trainfare", limits)
    with pytest.raises(RefusedQueryError, match="jobs"):
        parser.prepare(sql, {"job": "a"}, {"attempts": False}, "trainfare", limits)
    lower = QueryLimits(memory_bytes=1)
    assert parser.prepare(sql, {"job": "a"}, tables, "trainfare", lower).settings["max_memory_usage"] == "1"


def seen(*names: str) -> frozenset[FileSeen]:
    return frozenset(FileSeen(name, 1, 1) for name in names)


@pytest.mark.parametrize(
    ("files", "read"),
    [
        (("202501_1_1_0", "202501_2_2_0"), ("202501_1_1_0", "202501_2_2_0")),
        (("202501_1_1_0", "202501_2_2_0", "202501_1_2_1"), ("202501_1_2_1",)),
        (("202501_1_2_1", "202501_1_2_1_7"), ("202501_1_2_1_7",)),
        (("202501_1_2_1", "202502_1_1_0"), ("202501_1_2_1", "202502_1_1_0")),
        (("all_1_9_2", "all_3_4_1", "all_10_10_0"), ("all_1_9_2", "all_10_10_0")),
        (("202501_1_1_0", "tmp_insert_202501_2_2_0", "delete_tmp_202501_3_3_0"), ("202501_1_1_0",)),
        (("202501_1_1_0", "mutation_2.txt", "format_version.txt"), ("202501_1_1_0", "mutation_2.txt", "format_version.txt")),
    ],
)  # fmt: skip
def test_parts_that_were_merged_and_those_being_made_are_not_read(
    files: tuple[str, ...], read: tuple[str, ...]
) -> None:
    assert present(seen(*files)) == seen(*read)


def test_a_part_that_goes_while_files_are_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("all_1_1_0", "all_2_2_0"):
        (tmp_path / name).touch()
    listed = os.scandir

    @contextmanager
    def merged_meanwhile(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        with listed(folder) as found:
            entries = [*found]
        (tmp_path / "all_1_1_0").unlink()
        yield iter(entries)

    monkeypatch.setattr(os, "scandir", merged_meanwhile)
    assert {each.name for each in open_tables._looked(tmp_path)} == {"all_2_2_0"}
    monkeypatch.undo()
    assert open_tables._looked(tmp_path / "none") == frozenset()


def test_a_part_of_the_same_name_is_another_one() -> None:
    one, other = (present(frozenset({FileSeen("202501_1_1_0", inode, 1)})) for inode in (1, 2))
    assert one != other
