"""An embedded store for each module, empty at the start of each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from tests.sinks import fleet
from tests.sinks.stores import embedded, empty


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(Path(tmp_path_factory.mktemp("engine"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


@pytest.fixture
def meter(store: ClickHouseStore) -> ClickHouseStore:
    fleet.load(store)
    return store
