"""The pages of tables against the schema that the migrations make: every table and view, every column, every key."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.tables import KEYS
from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.tables_page import columns_of, written
from sinks.clickhouse.view_files import shipped_views
from tests.sinks.stores import embedded

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {name: (ROOT / "docs" / name).read_text() for name in ("tables.md", "views.md", "bill_tables.md")}
TEXT = "\n## \n".join(TEXTS.values())
SECTIONS = re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]
PAGE = {each.partition("\n")[0].strip("`"): " ".join(each.partition("\n## ")[0].split()) for each in SECTIONS}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("engine")) as store:
        yield store


@pytest.fixture(scope="module")
def columns(store: ClickHouseStore) -> dict[str, str]:
    """Table -> its columns as the page has them."""
    return columns_of(store)


def test_every_table_and_view_is_on_the_page_and_no_other(columns: dict[str, str]) -> None:
    assert set(PAGE) == set(columns)
    assert len(SECTIONS) == len(PAGE), "each is told once"


def test_what_is_generated_is_up_to_date(columns: dict[str, str]) -> None:
    assert {name: written(text, columns) for name, text in TEXTS.items()} == TEXTS, "run `make docs`"


def test_the_text_of_a_view_is_that_of_its_file(columns: dict[str, str]) -> None:
    for view in shipped_views():
        assert PAGE[view.name].startswith(f"`{view.name}` {' '.join(view.doc.split())} Columns: "), view.file
    spoilt = TEXT.replace(shipped_views()[0].doc, "Another text.")
    assert spoilt != TEXT
    assert written(spoilt, columns) == TEXT


def test_of_a_new_view_the_page_needs_only_its_heading(columns: dict[str, str]) -> None:
    section = re.search(r"^### `usage`\n\n(.+?)\n(?=\n#)", TEXT, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert written(TEXT.replace(section[1] + "\n\n", ""), columns) == TEXT


def test_a_section_of_nothing_stays_and_shows(columns: dict[str, str]) -> None:
    strange = "### `no_table`\n\nText.\n\nColumns: `a` Int64.\n"
    assert written(strange, columns) == strange


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
