"""docs/tables.md against the schema that the migrations make: every table and view, every column, every key."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.tables import KEYS
from sinks.clickhouse import ClickHouseStore
from tests.sinks.stores import embedded

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = re.split(r"^### ", (ROOT / "docs" / "tables.md").read_text(), flags=re.MULTILINE)[1:]
PAGE = {each.partition("\n")[0].strip("`"): " ".join(each.partition("\n## ")[0].split()) for each in SECTIONS}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("engine")) as store:
        yield store


@pytest.fixture(scope="module")
def columns(store: ClickHouseStore) -> dict[str, str]:
    """Table -> its columns as the page has them."""
    found: dict[str, list[str]] = {}
    query = "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
    for table, name, kind in (map(str, row) for row in store.ask(query, {}).rows()):
        plain = re.sub(r"LowCardinality\((\w+)\)", r"\1", kind)
        plain = plain.replace("(3, 'UTC')", "(3)").replace("('UTC')", "")
        found.setdefault(table, []).append(f"`{name}` {plain}")
    return {table: ", ".join(each) for table, each in found.items()}


def test_every_table_and_view_is_on_the_page_and_no_other(columns: dict[str, str]) -> None:
    assert set(PAGE) == set(columns)
    assert len(SECTIONS) == len(PAGE), "each is told once"


@pytest.mark.parametrize("table", sorted(PAGE))
def test_its_columns_are_those_of_the_database(table: str, columns: dict[str, str]) -> None:
    assert PAGE[table].partition("Columns: ")[2] == f"{columns[table]}."


@pytest.mark.parametrize("table", sorted(KEYS))
def test_its_key_is_that_by_which_rows_replace_one_another(table: str) -> None:
    said = re.search(r"Key: ([^.]+)\. Columns", PAGE[table])
    assert said is not None
    assert tuple(re.findall(r"`(\w+)`", said[1])) == KEYS[table]


def test_it_says_who_writes_a_table() -> None:
    for table in KEYS:
        assert re.search(r"\bBy (the|every|any|whoever)\b|Facts about the whole store", PAGE[table]), table
