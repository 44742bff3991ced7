"""The embedded engine runs with our options, whichever client opened it."""

from pathlib import Path

from sinks.clickhouse import ClickHouseStore, Embedded


def test_the_engine_seldom_looks_at_its_memory(tmp_path: Path) -> None:
    store = ClickHouseStore(Embedded(data_dir=tmp_path))
    try:
        found = store.ask("SELECT value FROM system.server_settings WHERE name = 'memory_worker_period_ms'")
        assert [tuple(row) for row in found.rows()] == [("1000",)]
    finally:
        store.close()
