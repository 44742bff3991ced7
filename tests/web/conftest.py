"""One small replay for all, and a store of its own for each module, with live rows that are known by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.web import live, log


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that nobody has open; copy it."""
    return log.replayed(tmp_path_factory.mktemp("replayed"))


@pytest.fixture(scope="module")
def store(replayed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    data = tmp_path_factory.mktemp("store") / "meter"
    shutil.copytree(replayed, data, symlinks=True)
    opened = ClickHouseStore(Embedded(data_dir=data))
    try:
        live.only_ours(opened)
        yield opened
    finally:
        opened.close()
