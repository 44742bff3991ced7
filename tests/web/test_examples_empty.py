"""The examples of SQL on a store in which nothing has come yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.web.tables import EXAMPLES
from tests.web.serving import Client, served


def test_each_example_runs_and_has_columns(tmp_path: Path) -> None:
    async def work(client: Client) -> list[Any]:
        return [await client.ask({"sql": each.sql}) for each in EXAMPLES]

    store = ClickHouseStore(Embedded(data_dir=tmp_path / "meter"))
    try:
        answers = served(store, work)
    finally:
        store.close()
    assert [answer["rows"] for answer in answers] == [[]] * len(EXAMPLES)
    assert all(answer["columns"] for answer in answers)
