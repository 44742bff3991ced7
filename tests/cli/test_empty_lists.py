"""What lists nothing says so, and what would fill it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.new_store import begun


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = begun(tmp_path_factory.mktemp("empty") / "meter")
    ClickHouseStore(Embedded(data_dir=data)).close()
    return data


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fx", "show"), "trainfare: no rate is loaded: `trainfare fx load FILE`; "),
        (("fx", "show", "--currency", "CHF"), "trainfare: no rate of CHF is loaded: `trainfare fx load FILE`; "),
        (
            ("fx", "show", "--currency", "CHF", "--from", "2026-10-01"),
            "trainfare: no rate of CHF of these days is loaded: `trainfare fx load FILE`; ",
        ),
        (("bills", "list"), "trainfare: no bill is loaded: `trainfare bills load FILE`\n"),
        (("tokens", "list"), "trainfare: no token was issued: `trainfare tokens create NAME`\n"),
        (("jobs",), "trainfare: the store has no job\n"),
        (("jobs", "--team", "nobody"), "trainfare: no job is like that\n"),
        (("dead-letters", "list"), "trainfare: the store has no refused record that is like this\n"),
        (("backfill", "--list"), "trainfare: nothing was backfilled: `trainfare backfill FILE`\n"),
        (("allocation", "show"), "trainfare: no allocation rules are loaded: `trainfare allocation load`"),
        (("commitments", "show"), "trainfare: no commitments in this time: `trainfare commitments load`"),
        (("carbon", "show"), "trainfare: no energy was metered in this time"),
    ],
)  # fmt: skip
def test_an_empty_list_says_so(data: Path, words: tuple[str, ...], said: str) -> None:
    done = trainfare(*words, "--data", data, "--format", "table")
    assert done.code == 0
    assert done.err.startswith(said)
    assert json.loads(trainfare(*words, "--data", data, "--format", "json").out) == []


def test_what_is_no_code_of_a_currency_is_refused(data: Path) -> None:
    done = trainfare("fx", "show", "--currency", "eur", "--data", data)
    assert done.code == 2
    assert done.one_line() == "trainfare: --currency: got 'eur', expected a code such as EUR"
