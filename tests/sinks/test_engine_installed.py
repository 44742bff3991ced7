"""Where the extra `embedded` is not installed, whatever needs the engine says so, and what mends it; the rest works."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.engine_installed import require_engine
from sinks.errors import EngineMissing
from sinks.query.refusal import QueriesOffError
from sinks.query.session import local_client
from streams.cli.main import main
from tests.cli.command import ROOT, trainfare

MENDS = "not installed: pip install 'trainfare[embedded]'"


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Python does for a package that is not there."""
    monkeypatch.setitem(sys.modules, "chdb", None)


def test_nothing_is_said_where_it_is_installed() -> None:
    require_engine("this")


@pytest.mark.usefixtures("missing")
def test_a_store_in_a_directory_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing) as caught:
        ClickHouseStore(Embedded(data_dir=tmp_path / "meter"))
    assert str(caught.value) == (
        f"a store in a directory ({tmp_path / 'meter'}) needs the embedded ClickHouse, which is {MENDS}"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("missing")
def test_sql_of_users_is_off_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(QueriesOffError, match=r"^SQL of users.* pip install 'trainfare\[embedded\]'$"):
        local_client(str(tmp_path))


def without_engine(arguments: Sequence[str]) -> None:
    """In a process of its own."""
    sys.modules["chdb"] = None  # type: ignore[assignment]  # as Python marks what is not there
    main(arguments)


@pytest.mark.parametrize(
    "words",
    [
        ("replay", ROOT / "examples/prices.jsonl", "--data", "meter"),
        ("backfill", ROOT / "examples/prices.jsonl", "--data", "meter"),
        ("backtest", ROOT / "examples/prices.jsonl"),
        ("demo", "--data", "meter", "--port", "0"),
        ("serve", "--data", "meter"),
        ("worker", "--data", "meter"),
    ],
    ids=lambda words: str(words[0]),
)
def test_a_command_says_it_in_one_line_before_it_begins(words: tuple[object, ...], tmp_path: Path) -> None:
    done = trainfare(
        *words, cwd=tmp_path, function="tests.sinks.test_engine_installed:without_engine", new_store="begun"
    )
    assert done.code == 1
    assert done.one_line().endswith(MENDS)
    assert not list(tmp_path.iterdir())
