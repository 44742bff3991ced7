"""Requests as a server takes them: long lists come as forms, and what is over its limits is refused in words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.tables import DEAD_LETTERS, DELIVERIES
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkError
from sinks.rows import Condition
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table
from streams.worker.storing.dead_letters import not_in_store
from tests.store_process import StoreProcess

SQL = "SELECT arrayJoin({ids:Array(String)}) AS id, {text:String} AS text"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(Path(tmp_path_factory.mktemp("store"))) as front:
        yield front


@pytest.fixture
def store(front: StoreProcess) -> Iterator[ClickHouseStore]:
    store = ClickHouseStore(front.target(retry_for_s=0.5))
    yield store
    store.close()


def test_a_list_too_long_for_a_url_comes_as_a_form(front: StoreProcess, store: ClickHouseStore) -> None:
    ids = [f"id-\u00e4'\\\r\n-{number:030}" for number in range(500)]
    before = front.forms()
    found = store.query(SQL, {"ids": ids, "text": "a\nb"})
    assert found["id"].to_pylist() == ids
    assert set(found["text"].to_pylist()) == {"a\nb"}
    assert front.forms() == before + 1
    assert store.select(DELIVERIES, [Condition("alert_id", "in", ids)]).num_rows == 0


def test_a_parameter_over_the_limit_of_a_field_is_refused(store: ClickHouseStore) -> None:
    with pytest.raises(SinkError, match="Field value too long: param_ids"):
        store.query(SQL, {"ids": ["x" * 1_000] * 140, "text": ""})


def test_a_statement_over_the_limit_is_refused(store: ClickHouseStore) -> None:
    with pytest.raises(SinkError, match="Max query size exceeded"):
        store.query(f"SELECT '{'x' * 300_000}' AS text")


def test_any_number_of_dead_letters_can_be_looked_for(store: ClickHouseStore) -> None:
    """Every worker asks at each start which refused prices and controls are stored already."""
    offsets = range(10**12, 10**12 + 12_000)
    letters = [DeadLetter("prices", 0, offset, "malformed_json", "", b"", 1) for offset in offsets]
    table = dead_letter_table(letters, 1)
    store.insert(DEAD_LETTERS, table.slice(0, 11_000), "some")
    assert not_in_store(store, table)["offset"].to_pylist() == list(offsets[11_000:])
