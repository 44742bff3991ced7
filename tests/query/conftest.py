"""A small replayed store for the modules of this directory, as those of `tests/web` have it, and ClickHouse's parser."""

from collections.abc import Iterator

import pytest

from sinks.query.session import Parser, local_client
from tests.web.conftest import replayed, store

__all__ = ["parser", "replayed", "store"]


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parser]:
    client = local_client(str(tmp_path_factory.mktemp("engine")))
    try:
        yield Parser(client)
    finally:
        client.close()
