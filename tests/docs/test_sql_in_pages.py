"""Every query on the pages is one that the store's tables and views understand."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore
from tests.sinks.stores import embedded

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
_QUERY = re.compile(r'trainfare sql "([^"]+)"|`(SELECT [^`]+)`')


def _queries() -> list[str]:
    found = [first or second for page in PAGES for first, second in _QUERY.findall(page.read_text())]
    return [" ".join(query.split()) for query in found]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("engine")) as store:
        yield store


@pytest.mark.parametrize("query", _queries())
def test_a_query_on_the_pages_runs(query: str, store: ClickHouseStore) -> None:
    assert store.ask(query, {}).names


def test_there_are_queries_to_run() -> None:
    assert len(_queries()) >= 4


def test_a_wrong_column_would_show(store: ClickHouseStore) -> None:
    with pytest.raises(Exception, match="no_such_column"):
        store.ask("SELECT no_such_column FROM ledger", {})
