"""Views are files: what they hold, the order they are made in, and when a store makes, replaces and drops one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse import migrate as migrations
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.migrate import FORMER, Migration, create_database, migrate, shipped
from sinks.clickhouse.tuning import tune
from sinks.clickhouse.view_files import ViewFile, fingerprints, ordered, shipped_views
from sinks.errors import QueryFailed, SinkError, StoreMismatch
from sinks.target import Embedded, Target
from tests.golden.migrations.former import FORMER_SQL
from tests.store_process import ROOT, StoreProcess

FILES = {"below": "-- Below.\n\nSELECT 1 AS a\n", "above": "-- Above.\n\nSELECT a + 1 AS b FROM below\n"}
TABLE = [Migration("0001_t.sql", "CREATE TABLE IF NOT EXISTS t (a Int64) ENGINE = MergeTree ORDER BY a;\n")]


class Database:
    """A database of its own; `open` brings it up to given files as an opening of the store does."""

    def __init__(self, target: Target) -> None:
        self.name = target.database
        self.connection = ClickHouseConnection(target, self.name)
        create_database(self.connection, self.name)

    def open(self, files: dict[str, str], tables: list[Migration] | None = None) -> list[str]:
        return migrate(self.connection, self.name, TABLE if tables is None else tables, ordered(files))

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.call(lambda client, sql=statement: client.command(sql))  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return rows_of(self.connection, sql)

    def schema(self) -> dict[str, tuple[object, ...]]:
        return schema(self.connection, self.name)


def rows_of(connection: ClickHouseConnection, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in connection.call(lambda client: client.query(sql)).result_rows]


def schema(connection: ClickHouseConnection, name: str) -> dict[str, tuple[object, ...]]:
    """Every table and view with its columns and its statement, less the database's name and the views' comments."""
    columns: dict[str, list[object]] = {}
    for table, *column in rows_of(
        connection,
        "SELECT table, name, type, default_expression FROM system.columns WHERE database = currentDatabase() "
        "ORDER BY table, position",
    ):
        columns.setdefault(str(table), []).append(tuple(column))
    made = rows_of(
        connection, "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase()"
    )
    return {
        str(each): (
            columns[str(each)],
            re.sub(r" COMMENT 'trainfare [^']*'", "", str(text)).replace(f"{name}.", ""),
        )
        for each, text in made
    }


@pytest.fixture
def database(shared: ClickHouseStore) -> Iterator[Callable[[str], Database]]:
    made: list[Database] = []

    def new(name: str) -> Database:
        assert isinstance(shared.target, Embedded)
        target = Embedded(
            data_dir=shared.target.data_dir, database=f"{name}_{len(made)}_of_test", retry_for_s=0.2
        )
        made.append(Database(target))
        return made[-1]

    yield new
    for each in made:
        each.run(f"DROP DATABASE {each.name}")
        each.connection.close()


def old_store(database: Database, last: int) -> None:
    """Make the store as it was after the file with this number, when these files made the views, too."""
    files = {migration.name: migration.sql for migration in shipped()} | FORMER_SQL
    database.run(migrations.LEDGER)
    for name in sorted(files):
        if int(name[:4]) <= last:
            migrations._apply(database.connection, Migration(name, files[name]))


class TestFiles:
    def test_each_file_of_the_folder_is_a_view(self) -> None:
        assert sorted(f"{view.name}.sql" for view in shipped_views()) == sorted(
            path.name for path in (ROOT / "sinks/clickhouse/views").iterdir()
        )
        assert all((ROOT / view.file).exists() for view in shipped_views())

    @pytest.mark.parametrize("view", shipped_views(), ids=lambda view: view.name)
    def test_it_is_one_select_below_its_text(self, view: ViewFile) -> None:
        assert view.doc
        assert view.select.startswith(("SELECT", "WITH "))
        assert ";" not in view.select
        assert not view.text.endswith("\n\n")

    def test_no_view_has_the_name_of_a_table_which_it_would_replace(self) -> None:
        assert not {view.name for view in shipped_views()} & {*SCHEMAS, "migrations"}

    def test_no_migration_makes_a_view(self) -> None:
        """It would come back with every new store, whatever its file says."""
        assert [each.name for each in shipped() if re.search(r"\bVIEW\b", each.sql)] == []

    def test_a_view_comes_after_those_that_it_reads(self) -> None:
        done: set[str] = set()
        for view in shipped_views():
            assert view.reads <= done, view.name
            done.add(view.name)

    def test_what_a_view_reads_is_what_clickhouse_says(self, store: ClickHouseStore) -> None:
        made = store.ask(
            "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND engine = 'View'"
        ).rows()
        names = {view.name for view in shipped_views()}
        said = {
            str(name): frozenset(re.findall(r"\btrainfare\.(\w+)", str(text))[1:]) & names
            for name, text in made
        }
        assert {view.name: view.reads for view in shipped_views()} == said

    def test_names_in_comments_and_columns_are_not_read(self) -> None:
        files = {"a": "-- FROM b\nSELECT b FROM t -- no\n", "b": "SELECT a FROM t JOIN `a` USING (x)\n"}
        assert [(view.name, set(view.reads)) for view in ordered(files)] == [("a", set()), ("b", {"a"})]

    @pytest.mark.parametrize(
        "files", [{"a": "SELECT 1 FROM b", "b": "SELECT 1 FROM a"}, {"a": "SELECT 1 FROM t WHERE x IN a"}]
    )
    def test_a_circle_is_named(self, files: dict[str, str]) -> None:
        with pytest.raises(SinkError, match=r"in a circle: .*a\.sql reads .*\.sql"):
            ordered(files)


class TestMaking:
    def test_a_changed_file_is_made_anew_once_with_what_reads_it(
        self, database: Callable[[str], Database]
    ) -> None:
        one = database("changed")
        files = FILES | {"beside": "SELECT 5 AS e\n"}
        assert one.open(files) == ["0001_t.sql", "below", "beside", "above"]
        assert one.open(files) == []
        # Made of the former `below`, it would go on with UInt8.
        files["below"] = "-- Below.\n\nSELECT toFloat64(1.5) AS a\n"
        assert one.open(files) == ["below", "above"]
        assert one.rows("SELECT b, toTypeName(b) FROM above") == [(2.5, "Float64")]
        assert one.open(files) == []

    def test_another_comment_changes_no_view(self, database: Callable[[str], Database]) -> None:
        one = database("comment")
        one.open(FILES)
        assert one.open({name: f"-- Other words.\n{text}" for name, text in FILES.items()}) == []

    def test_views_are_made_anew_after_a_migration(self, database: Callable[[str], Database]) -> None:
        """`*` is what the table had when the view was made."""
        one = database("migrated")
        one.open({"all_of": "SELECT * FROM t\n"})
        wider = [*TABLE, Migration("0002_t.sql", "ALTER TABLE t ADD COLUMN IF NOT EXISTS b Int64;\n")]
        assert one.open({"all_of": "SELECT * FROM t\n"}, wider) == ["0002_t.sql", "all_of"]
        one.run("INSERT INTO t VALUES (1, 2)")
        assert one.rows("SELECT b FROM all_of") == [(2,)]

    def test_a_view_without_a_file_is_dropped_and_nobody_elses(
        self, database: Callable[[str], Database]
    ) -> None:
        one = database("gone")
        one.open(FILES)
        one.run("CREATE VIEW their_own AS SELECT 3 AS c")
        assert one.open({"below": FILES["below"]}) == ["above"]
        assert one.open({"below": FILES["below"]}) == []
        assert sorted(one.schema()) == ["below", "migrations", "t", "their_own"]

    def test_a_view_may_become_a_table(self, database: Callable[[str], Database]) -> None:
        one = database("table")
        one.open(FILES)
        sql = "DROP VIEW IF EXISTS above;\nCREATE TABLE IF NOT EXISTS above (b Int64) ENGINE = Memory;\n"
        assert one.open({"below": FILES["below"]}, [*TABLE, Migration("0002_above.sql", sql)])
        assert one.rows(
            "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = 'above'"
        ) == [("Memory",)]

    def test_a_view_that_somebody_dropped_or_replaced_comes_back(
        self, database: Callable[[str], Database]
    ) -> None:
        one = database("replaced")
        one.open(FILES)
        one.run("DROP VIEW above", "CREATE OR REPLACE VIEW below AS SELECT 7 AS a")
        assert one.open(FILES) == ["below", "above"]
        assert one.rows("SELECT b FROM above") == [(2,)]

    @pytest.mark.parametrize(
        "broken", ["SELECT nothing FROM t\n", "SELEC 1\n", "SELECT 1 AS a FROM nowhere\n"]
    )
    def test_a_broken_file_is_named_and_the_former_view_stays(
        self, database: Callable[[str], Database], broken: str
    ) -> None:
        one = database("broken")
        one.open(FILES)
        with pytest.raises(
            QueryFailed, match=r"`above` cannot be made of sinks/clickhouse/views/above\.sql: .*Code"
        ):
            one.open(FILES | {"above": broken})
        assert one.rows("SELECT b FROM above") == [(2,)]
        assert one.open(FILES) == []

    def test_a_table_that_changed_below_a_view_is_an_error_with_the_views_name(
        self, database: Callable[[str], Database]
    ) -> None:
        one = database("below")
        files = {"of_t": "SELECT a, b FROM t\n"}
        wider = [*TABLE, Migration("0002_t.sql", "ALTER TABLE t ADD COLUMN IF NOT EXISTS b Int64;\n")]
        one.open(files, wider)
        narrower = [*wider, Migration("0003_t.sql", "ALTER TABLE t DROP COLUMN IF EXISTS b;\n")]
        with pytest.raises(QueryFailed, match=r"views/of_t\.sql: .*`b`.*a table that it reads is not as"):
            one.open(files, narrower)

    def test_an_opening_in_which_nothing_changed_asks_twice(
        self, database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = database("asks")
        one.open(FILES)
        calls: list[object] = []
        call = ClickHouseConnection.call

        def counted(on: ClickHouseConnection, work: Callable[[Any], object]) -> object:
            calls.append(work)
            return call(on, work)

        monkeypatch.setattr(ClickHouseConnection, "call", counted)
        assert one.open(FILES) == []
        assert len(calls) == 2, "what was made, with its hash, and which migrations ran"


class TestOtherVersions:
    def test_a_later_releases_view_is_refused_before_anything_changes(
        self, database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = database("later")
        monkeypatch.setattr(migrations, "release", lambda: "0.10.0")
        one.open(FILES | {"below": "SELECT 9 AS a\n"})
        monkeypatch.setattr(migrations, "release", lambda: "0.9.1")
        for files in (FILES, {}):
            with pytest.raises(
                StoreMismatch, match=r"later version than 0\.9\.1 .it has \w+\.sql of release 0\.10\.0"
            ):
                one.open(files, [*TABLE, Migration("0002_u.sql", "SELECT 1;\n")])
        assert one.rows("SELECT b FROM above") == [(10,)]
        assert one.rows("SELECT name FROM migrations") == [("0001_t.sql",)]
        monkeypatch.setattr(migrations, "release", lambda: "0.10.0")
        assert one.open(FILES) == ["below", "above"], "another build of one release"

    @pytest.mark.parametrize("other", ["0.2.0", "unknown"])
    def test_a_release_with_the_same_views_is_none_to_refuse(
        self, database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch, other: str
    ) -> None:
        one = database("same")
        monkeypatch.setattr(migrations, "release", lambda: other)
        one.open(FILES)
        monkeypatch.setattr(migrations, "release", lambda: "0.1.0")
        assert one.open(FILES) == []

    def test_the_former_files_are_those_that_stores_ran(self) -> None:
        assert {name: Migration(name, sql).checksum for name, sql in FORMER_SQL.items()} == FORMER

    @pytest.mark.parametrize("last", [2, 8, 14, 16])
    def test_an_old_store_comes_to_be_as_a_new_one(
        self, shared: ClickHouseStore, database: Callable[[str], Database], last: int
    ) -> None:
        """A view of these that loses its file needs `DROP VIEW IF EXISTS` in a migration: they have no comment yet."""
        old = database("old")
        old_store(old, last)
        old.run("INSERT INTO job_minutes (minute, job_id, attempt, quantity) VALUES (0, 'j', 1, 5)")
        migrate(old.connection, old.name, shipped(), shipped_views())
        tune(old.connection)
        assert old.schema() == schema(shared._connection, "trainfare")
        assert old.rows("SELECT job_id, quantity FROM ledger") == [("j", 5)]
        assert old.rows("SELECT count() FROM job_hours") == [(int(last < 3),)]
        assert migrate(old.connection, old.name, shipped(), shipped_views()) == []

    def test_a_former_file_with_other_contents_is_another_build(
        self, database: Callable[[str], Database]
    ) -> None:
        one = database("edited")
        one.run(migrations.LEDGER, "INSERT INTO migrations (name, checksum) VALUES ('0002_views.sql', 1)")
        with pytest.raises(StoreMismatch, match=r"another build .0002_views\.sql differs"):
            migrate(one.connection, one.name, shipped(), shipped_views())

    def test_a_migration_that_another_version_made_fail_is_run_again(
        self, database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It drops a table between two statements that rest on each other."""
        one = database("again")
        sql = "CREATE TABLE IF NOT EXISTS t (a Int64) ENGINE = Memory;\nINSERT INTO t VALUES (1);\n"
        behind = ["DROP TABLE t"]
        run = migrations._run

        def interleaved(on: ClickHouseConnection, statement: str) -> None:
            run(on, statement)
            if statement.startswith("CREATE TABLE IF NOT EXISTS t "):
                while behind:
                    run(on, behind.pop(0))

        monkeypatch.setattr(migrations, "_run", interleaved)
        assert one.open({}, [Migration("0001_t.sql", sql)]) == ["0001_t.sql"]
        assert not behind
        assert one.rows("SELECT a FROM t") == [(1,)]

    def test_a_worker_that_is_behind_fails_none_that_is_ahead(
        self, database: Callable[[str], Database], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It makes a view as its files have it, between two views of a newer version that rest on each other."""
        one = database("behind")
        behind = ["CREATE OR REPLACE VIEW below AS SELECT 1 AS a"]
        newer = {"below": "SELECT 1 AS a, 2 AS b\n", "above": "SELECT a + b AS c FROM below\n"}
        run = migrations._run

        def interleaved(on: ClickHouseConnection, statement: str) -> None:
            run(on, statement)
            if "`below`" in statement:
                while behind:
                    run(on, behind.pop(0))

        monkeypatch.setattr(migrations, "_run", interleaved)
        assert one.open(newer) == ["0001_t.sql", "below", "above"]
        assert not behind
        assert one.rows("SELECT c FROM above") == [(3,)]


class TestServer:
    """Over HTTP, where several processes open one store at once."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[StoreProcess]:
        with StoreProcess(tmp_path) as process:
            yield process

    def test_openers_at_once_and_a_reader_meanwhile(self, server: StoreProcess) -> None:
        name = "trainfare"
        reader = Database(server.target(name))
        # As if each were to be made anew: an older release made them.
        for view in shipped_views():
            reader.run(
                f"CREATE OR REPLACE VIEW `{view.name}` AS\n{view.select}\nCOMMENT 'trainfare 0.0.1 {0:016x}'"
            )
        faults: list[BaseException] = []
        begin, done = threading.Barrier(4), threading.Event()

        def guarded(work: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                begin.wait()
                try:
                    work()
                except BaseException as fault:  # noqa: BLE001 - of a thread: the test shows it
                    faults.append(fault)

            return run

        def opener() -> None:
            ClickHouseStore(server.target(name)).close()

        reads = [0]

        def read() -> None:
            while not done.is_set():
                assert reader.rows("SELECT count() FROM m1_cost_per_wall_clock_hour") == [(0,)]
                reads[0] += 1

        threads = [threading.Thread(target=guarded(work)) for work in (opener, opener, opener, read)]
        for thread in threads:
            thread.start()
        for thread in threads[:-1]:
            thread.join()
        done.set()
        threads[-1].join()
        assert faults == []
        assert reads[0] > 0
        assert migrate(reader.connection, name, shipped(), shipped_views()) == []
        origins = migrations.form_of(reader.connection, name).views
        made = fingerprints(shipped_views(), shipped()[-1].name)
        assert {each: origin.fingerprint for each, origin in origins.items()} == made
        left = reader.rows(
            "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE '%tmp%'"
        )
        assert left == [(0,)]
        reader.connection.close()
