"""The embedded engine runs with our options, whichever client opened it."""

from pathlib import Path

from sinks.clickhouse import ClickHouseStore, Embedded


def test_the_engine_seldom_looks_at_its_memory_and_merges_one_at_a_time(tmp_path: Path) -> None:
    store = ClickHouseStore(Embedded(data_dir=tmp_path))
    try:
        found = store.ask(
            "SELECT name, value FROM system.server_settings WHERE name IN ('memory_worker_period_ms', "
            "'background_pool_size', 'background_merges_mutations_concurrency_ratio')"
        )
        assert {row[0]: row[1] for row in found.rows()} == {
            "memory_worker_period_ms": "1000",
            "background_pool_size": "1",
            "background_merges_mutations_concurrency_ratio": "1",
        }
    finally:
        store.close()


def test_merges_make_no_statistics_of_our_large_tables(tmp_path: Path) -> None:
    """And the second start has nothing to tell."""
    asked = (
        "SELECT name FROM system.tables WHERE database = currentDatabase() "
        "AND position(engine_full, 'auto_statistics_types = \\'\\'') > 0 ORDER BY name"
    )
    for _ in range(2):
        store = ClickHouseStore(Embedded(data_dir=tmp_path))
        try:
            found = [row[0] for row in store.ask(asked).rows()]
            assert found == [
                "burn_rates",
                "job_hours",
                "job_minutes",
                "job_usage_minutes",
                "node_hours",
                "node_minutes",
                "unattributed_minutes",
            ]
        finally:
            store.close()
