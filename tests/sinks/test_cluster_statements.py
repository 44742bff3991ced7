"""The statements that make and change the tables of a cluster, as texts and by the parser of the engine: quick, so that each new migration meets them."""

from __future__ import annotations

import pytest

from schemas.tables import KEYS, SNAPSHOTS
from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.cluster import on_cluster
from sinks.clickhouse.migrate import LEDGER, shipped
from sinks.clickhouse.view_files import shipped_views

_UNREAD = (
    "SELECT sql FROM (SELECT arrayJoin({all:Array(String)}) AS sql) WHERE formatQueryOrNull(sql) IS NULL"
)


def made_of_all() -> list[str]:
    """What a cluster is asked for the migrations and views that are shipped."""
    views = [f"CREATE OR REPLACE VIEW `{each.name}` AS\n{each.select}" for each in shipped_views()]
    asked = [LEDGER, *(sql for each in shipped() for sql in each.statements()), *views]
    return [form for sql in asked for form in on_cluster(sql, "fleet", "trainfare")]


def test_the_engine_can_read_each_statement_of_a_cluster(shared: ClickHouseStore) -> None:
    made = made_of_all()
    assert len(made) > 100
    found = [
        row[0]
        for row in shared.ask(_UNREAD, {"all": [*made, "CREATE TABLE t (a Int8) ENGINE = Log, b = 1"]}).rows()
    ]
    assert found == ["CREATE TABLE t (a Int8) ENGINE = Log, b = 1"], "but what is no SQL"


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ("SETTINGS non_replicated_deduplication_window = 1000", ""),
        ("SETTINGS non_replicated_deduplication_window = 1000, a = 1, b = 'x'", "\nSETTINGS a = 1, b = 'x'"),
        ("SETTINGS a = 1, non_replicated_deduplication_window = 1000", "\nSETTINGS a = 1"),
        ("SETTINGS a = 1", "\nSETTINGS a = 1"),
        ("", ""),
    ],
)
def test_other_settings_of_a_table_stay(settings: str, kept: str) -> None:
    sql = f"CREATE TABLE IF NOT EXISTS t (a Int8)\nENGINE = ReplacingMergeTree(version)\nORDER BY (a, b)\n{settings}"
    held = on_cluster(sql, "c", "d")[0]
    assert held.partition("ORDER BY (a, b)")[2] == kept


def test_each_table_is_replicated_and_spread_by_its_job() -> None:
    made = made_of_all()
    for table, keys in {**KEYS, "migrations": ("name",)}.items():
        held, spread = (
            each for each in made if each.startswith("CREATE TABLE") and f"`{table}" in each.split("\n")[0]
        )
        version = "" if table in (SNAPSHOTS, "migrations") else ", version"
        engine = "MergeTree" if table == SNAPSHOTS else "ReplacingMergeTree"
        path = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
        assert f"`{table}_local` ON CLUSTER `fleet`\n" in held
        assert f"ENGINE = Replicated{engine}({path}{version})" in held
        place = "job_id" if "job_id" in keys else keys[0]
        assert f"ENGINE = Distributed(`fleet`, `trainfare`, `{table}_local`, cityHash64({place}))" in spread
    assert not any("non_replicated" in each for each in made)
    changed = [each for each in made if each.startswith("ALTER")]
    assert all(" ON CLUSTER `fleet` " in each for each in changed)
    added = [each for each in changed if "ADD COLUMN" in each]
    assert len([each for each in added if "_local`" in each]) * 2 == len(added), "both tables get a column"
    assert all("_local`" in each for each in changed if "ADD COLUMN" not in each)


@pytest.mark.parametrize(
    ("statement", "forms"),
    [
        ("CREATE DATABASE IF NOT EXISTS `d`", ["CREATE DATABASE IF NOT EXISTS `d` ON CLUSTER `c`"]),
        ("DROP VIEW IF EXISTS `v`", ["DROP VIEW IF EXISTS `v` ON CLUSTER `c`"]),
        (
            "CREATE OR REPLACE VIEW `v` AS\nSELECT 1",
            ["CREATE OR REPLACE VIEW `v` ON CLUSTER `c` AS\nSELECT 1"],
        ),
        ("DELETE FROM `jobs` WHERE x = 1", ["DELETE FROM `jobs_local` ON CLUSTER `c` WHERE x = 1"]),
        (
            "ALTER TABLE `jobs` DROP PARTITION ID '202611'",
            ["ALTER TABLE `jobs_local` ON CLUSTER `c` DROP PARTITION ID '202611'"],
        ),
        ("INSERT INTO jobs SELECT 1", ["INSERT INTO jobs SELECT 1"]),
    ],
)
def test_statements_that_change_something_do_so_on_all_servers(statement: str, forms: list[str]) -> None:
    assert on_cluster(statement, "c", "d") == forms


@pytest.mark.parametrize("statement", ["DROP TABLE jobs", "OPTIMIZE TABLE jobs FINAL", "SELECT 1"])
def test_what_has_no_form_for_a_cluster_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match="no form for a cluster"):
        on_cluster(statement, "c", "d")
