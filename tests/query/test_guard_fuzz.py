"""A hundred thousand statements made of honest and hostile ones: what the guard lets through is one reading statement."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sinks.query import functions, grammar, guard
from sinks.query.session import Parser
from tests.query import fuzz
from tests.query.honest import all_queries
from tests.query.hostile import all_attacks

SEED = int(os.environ.get("TRAINFARE_FUZZ_SEED", "17"))
#: Of `make test`; a broken guard must be caught within as many.
FEW = 2_000


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a guard that is broken on purpose may let a file be written."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def corpus(parser: Parser) -> list[str]:
    honest = sorted({query.sql for query in all_queries() if query.where != "evidence"})
    # Of the hostile ones so few that some of what is made of both gets through.
    return honest + [attack.sql for attack in all_attacks(parser)[::12]]


def fuzzed(parser: Parser, corpus: list[str], count: int, seed: int) -> int:
    """How many statements got through; each is looked at."""
    let, seen = 0, set()
    for sql in fuzz.Maker(parser, corpus, seed).statements(count):
        found = fuzz.passed(parser, sql)
        if found is not None and found.text not in seen:
            seen.add(found.text)
            let += fuzz.look(parser, found)
    # Otherwise the look would miss what it is for.
    assert let > 0.9 * len(seen)
    return let


def test_what_gets_through_is_one_reading_statement(parser: Parser, corpus: list[str]) -> None:
    assert fuzzed(parser, corpus, FEW, SEED) > 200


@pytest.mark.long
@pytest.mark.timeout(3_000)
def test_what_gets_through_of_many_is_one_reading_statement(parser: Parser, corpus: list[str]) -> None:
    assert fuzzed(parser, corpus, 100_000, SEED + 1) > 10_000


def test_the_honest_corpus_itself_stands_the_look(parser: Parser) -> None:
    for query in all_queries():
        found = fuzz.passed(parser, query.sql)
        if found is not None:
            fuzz.look(parser, found)


def test_a_guard_that_lets_a_file_through_is_caught(
    parser: Parser, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "TABLE_FUNCTIONS", functions.TABLE_FUNCTIONS | {"file"})
    # A twelfth of the attacks may have none that reads a file.
    files = [attack.sql for attack in all_attacks(parser) if "file(" in attack.sql]
    with pytest.raises(fuzz.UnsafeError, match="the function file in"):
        fuzzed(parser, files + corpus, FEW, SEED)


def also_allowed(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    for kind in ("SelectWithUnionQuery", "SelectQuery"):
        monkeypatch.setitem(grammar.KEYS, kind, grammar.KEYS[kind] | set(keys))


def test_a_guard_that_forgets_files_of_output_is_caught(
    parser: Parser, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_check_output", lambda _: None)
    also_allowed(monkeypatch, "out_file", "format_ast", "is_outfile_append", "is_outfile_truncate")
    with pytest.raises(fuzz.UnsafeError, match=r"of the statement itself|not the end"):
        fuzzed(parser, corpus, FEW, SEED)


def test_a_guard_that_forgets_settings_is_caught(
    parser: Parser, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "taken", lambda *_: {})
    monkeypatch.setitem(guard._CHECKS, "SetQuery", lambda *_: None)
    also_allowed(monkeypatch, "settings")
    with pytest.raises(fuzz.UnsafeError, match=r"Set in SelectQuery|SETTINGS custom_x"):
        fuzzed(parser, corpus, FEW, SEED)
