"""An embedded store for the modules that ask for one, empty at the start of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from tests.sinks.stores import embedded, empty


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(Path(tmp_path_factory.mktemp("engine"))) as opened:
        yield opened


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared
