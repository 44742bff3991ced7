"""What a backup and a restore ask of a cluster, whose `BACKUP ... ON CLUSTER` no engine in a process has; and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sinks.clickhouse import Server, backup
from sinks.clickhouse.damage import LostPart, drop_part
from sinks.errors import SinkError
from sinks.target import Target

FLEET = Server(url="http://127.0.0.1:1", database="trainfare", cluster="fleet")


class Recorder:
    """A connection that only notes what it is asked; it has so many tables."""

    def __init__(self, tables: int = 0) -> None:
        self.asked: list[str] = []
        self._tables = tables

    def call(self, work: Callable[[Any], Any]) -> Any:
        return work(self)

    def query(self, sql: str, parameters: object = None) -> object:
        self.asked.append(sql)
        return SimpleNamespace(result_rows=[(self._tables if "system.tables" in sql else 7, 3, 3)])

    def close(self) -> None:
        """Nothing is open."""


def asked(
    monkeypatch: pytest.MonkeyPatch, tables: int, work: Callable[[Target, backup.BackupPlace], object]
) -> list[str]:
    """The statements that change something, without their settings."""
    recorder = Recorder(tables)
    monkeypatch.setattr(backup, "_opened", lambda *_: recorder)
    work(FLEET, backup.place_of("disk:backups/monday", FLEET))
    return [sql.partition(" SETTINGS ")[0] for sql in recorder.asked if sql.startswith(("BACKUP", "RESTORE"))]


def test_a_cluster_is_backed_up_on_all_servers_snapshots_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, 9, lambda target, place: list(backup.back_up(target, place)))
    assert found == [
        "BACKUP TABLE `trainfare`.`snapshots_local` ON CLUSTER `fleet` TO Disk('backups', 'monday/snapshots')",
        (
            "BACKUP DATABASE `trainfare` EXCEPT TABLES `trainfare`.`snapshots_local` ON CLUSTER `fleet`"
            " TO Disk('backups', 'monday/rows')"
        ),
    ]


def test_a_cluster_is_restored_on_all_servers_snapshots_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, 0, backup.restore) == [
        "RESTORE DATABASE `trainfare` ON CLUSTER `fleet` FROM Disk('backups', 'monday/rows')",
        "RESTORE TABLE `trainfare`.`snapshots_local` ON CLUSTER `fleet` FROM Disk('backups', 'monday/snapshots')",
    ]


def test_nothing_is_restored_over_tables_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SinkError, match="has tables in the database trainfare"):
        asked(monkeypatch, 9, backup.restore)


def test_a_database_without_tables_is_not_backed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty backup would be taken for one when it is needed."""
    with pytest.raises(SinkError, match="nothing to back up"):
        asked(monkeypatch, 0, lambda target, place: list(backup.back_up(target, place)))


@pytest.mark.parametrize(
    "part", [LostPart("jobs` DROP", "all_1_1_0", ""), LostPart("jobs", "all' OR", ""), LostPart("", "a", "")]
)
def test_what_is_no_name_of_a_part_is_not_dropped(part: LostPart) -> None:
    recorder: Any = Recorder()
    with pytest.raises(ValueError, match="no name of a part"):
        drop_part(recorder, part)
    assert not recorder.asked
