import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded, Server
from sinks.clickhouse import migrate as migrations
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.migrate import FORMER, Migration, migrate, shipped
from sinks.clickhouse.view_files import shipped_views
from sinks.errors import SinkError, StoreInUse, StoreMismatch, StoreUnreachable
from tests.new_store import begun
from tests.sinks.stores import embedded, opened
from tests.store_process import ROOT, StoreProcess

BARE_CHDB = "import chdb, sys; c = chdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_a_directory_in_use_by_another_process_is_named_with_the_process(tmp_path: Path) -> None:
    with StoreProcess(tmp_path) as other:
        with pytest.raises(StoreInUse, match=rf"{tmp_path} is in use by process {other.pid}; .*--data"):
            ClickHouseStore(Embedded(data_dir=tmp_path))
        other.kill()
        with embedded(tmp_path) as store:
            assert store.meta.get("log") is None


def test_a_process_that_does_not_take_our_lock_is_noticed_by_the_engine(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BARE_CHDB, str(tmp_path / "clickhouse")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "open\n"
            with pytest.raises(StoreInUse, match="is in use by another process"):
                ClickHouseStore(Embedded(data_dir=tmp_path))
        finally:
            other.kill()


def test_a_second_directory_in_one_process_is_refused(tmp_path: Path) -> None:
    with embedded(tmp_path / "one"):
        with pytest.raises(StoreInUse, match="one data directory at a time"):
            ClickHouseStore(Embedded(data_dir=tmp_path / "two"))
        with embedded(tmp_path / "one") as again:
            again.meta.put("log", "x")
    with embedded(tmp_path / "two"):
        pass


def test_the_engine_starts_once_in_an_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops with its last client: none is closed before the store is."""
    order: list[str] = []
    close, apply = ClickHouseConnection.close, migrations.migrate

    def closed(connection: ClickHouseConnection) -> None:
        order.append("closed")
        close(connection)

    def migrated(*arguments: Any) -> list[str]:
        order.append("migrated")
        return apply(*arguments)

    monkeypatch.setattr(ClickHouseConnection, "close", closed)
    monkeypatch.setattr("sinks.clickhouse.store.migrate", migrated)
    with opened(Embedded(data_dir=tmp_path)) as store:
        assert order == ["migrated"]
        assert list(store.ask("SELECT count() FROM migrations").rows()) == [(len(shipped()),)]


def test_a_copy_of_an_empty_store_is_one_that_was_begun(tmp_path: Path) -> None:
    found = []
    for data_dir in (tmp_path / "begun", begun(tmp_path / "copied")):
        with opened(Embedded(data_dir=data_dir)) as store:
            tables = store.ask(
                "SELECT name, engine, create_table_query, total_rows FROM system.tables "
                "WHERE database = currentDatabase() ORDER BY name"
            )
            found.append((list(tables.rows()), stat.S_IMODE(data_dir.stat().st_mode)))
    assert found[0] == found[1]


def test_what_was_stored_is_there_after_reopening_and_nothing_migrates_twice(tmp_path: Path) -> None:
    with opened(Embedded(data_dir=tmp_path)) as store:
        store.meta.put("log", "x")
    with embedded(tmp_path) as store:
        assert store.meta.get("log") == "x"
        assert list(store.ask("SELECT count() FROM migrations").rows()) == [(len(shipped()),)]


def test_a_directory_that_cannot_be_made_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"cannot use .*file.* for data: .*--data"):
        ClickHouseStore(Embedded(data_dir=tmp_path / "file"))


def test_a_server_that_does_not_answer_is_named() -> None:
    target = Server(url="http://127.0.0.1:9", retry_for_s=0.2)
    with pytest.raises(
        StoreUnreachable, match=r"ClickHouse at http://127\.0\.0\.1:9 does not answer: .*refused"
    ):
        ClickHouseStore(target)


@pytest.mark.parametrize("url", ["127.0.0.1:8123", "clickhouse://h:9000", "http://", "http://u:p@h:1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SinkError):
        Server(url=url)


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(Server(url="http://h:8123", password="hunter2")) + str(
        Server(url="http://h:8123")
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", ("http", "h", 8123)),
        ("https://h", ("https", "h", 8443)),
        ("http://[::1]:1", ("http", "::1", 1)),
    ],
)
def test_parts_of_an_address(url: str, expected: tuple[str, str, int]) -> None:
    server = Server(url=url)
    assert (server.scheme, server.host, server.port) == expected


class TestMigrations:
    @pytest.fixture
    def connection(self, store: ClickHouseStore) -> ClickHouseConnection:
        return store._connection

    def test_files_are_numbered_without_a_gap(self) -> None:
        names = {migration.name for migration in shipped()} | FORMER.keys()
        assert sorted(int(name[:4]) for name in names) == list(range(1, len(names) + 1))

    def test_an_edited_file_is_a_mismatch(self, connection: ClickHouseConnection) -> None:
        first, *others = shipped()
        edited = [Migration(first.name, first.sql + "-- edited"), *others]
        with pytest.raises(StoreMismatch, match=f"another build .{first.name} differs"):
            migrate(connection, "trainfare", edited, shipped_views())

    def test_a_store_of_a_later_version_is_a_mismatch(self, connection: ClickHouseConnection) -> None:
        *earlier, last = shipped()
        with pytest.raises(StoreMismatch, match=f"later version than .* .it has {last.name}"):
            migrate(connection, "trainfare", earlier, shipped_views())

    def test_statements_bear_repetition(self, connection: ClickHouseConnection) -> None:
        """As when two workers start at once, or one dies before it has recorded a file."""
        for migration in shipped():
            for statement in migration.statements():
                connection.call(lambda client, sql=statement: client.command(sql))  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    def test_comments_are_no_statements(self) -> None:
        sql = "-- one; two\n-- three;\nSELECT 1;\n\n-- tail;\nSELECT 2;\n-- end\n"
        assert Migration("0001_x.sql", sql).statements() == ["SELECT 1", "SELECT 2"]


def test_migrations_are_in_the_package(tmp_path: Path) -> None:
    """What a wheel would hold: the files beside the code, matched by package-data."""
    found = sorted((ROOT / "sinks/clickhouse/migrations").iterdir())
    assert [path.name for path in found if path.suffix == ".sql"] == [m.name for m in shipped()]
