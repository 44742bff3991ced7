"""Commands that only read a store say the same in a process of their own and in one where others ran before."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.command import READING, ROOT, trainfare
from tests.forked import FORKER, without_settings

JOB = "lr-sweep-12/00"
COMMANDS = (
    ("jobs", "--limit", "5"),
    ("job", JOB),
    ("job", "nobody"),
    ("costs", "--metric", "m1", "--by", "team", "--per", "month"),
    ("costs", "--metric", "m1", "--by", "nothing"),
    ("chargeback", "--month", "2026-06", "--by", "team"),
    ("idle", "--by", "team"),
    ("budgets",),
    ("gate", "--team", "vision", "--need", "120"),
    ("explain", JOB, "--format", "json"),
    ("estimate", "--like", JOB),
    ("bills", "list"),
    ("prices", "show"),
    ("alerts", "why", JOB, "--at", "2026-06-01T10:30:10"),
    ("receipts", "show", JOB),
    ("dead-letters", "list"),
    ("audit",),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "data"
    done = trainfare("replay", ROOT / "examples" / "sweep.jsonl", "--data", folder)
    assert done.code == 0, done.err
    return folder


def die(_: Sequence[str]) -> None:
    os._exit(7)


def tell_process(_: Sequence[str]) -> None:
    print(os.getpid())  # noqa: T201 - what the fork writes


def process_id(*, shared: bool) -> int:
    function = f"{__name__}:tell_process"
    done = FORKER.run(function, env=without_settings(), cwd=None, timeout_s=60, shared=shared)
    return int(done.stdout)


def test_every_verb_that_shares_a_process_is_compared() -> None:
    assert {words[0] for words in COMMANDS} == READING


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_it_says_the_same_in_a_process_of_its_own(data: Path, words: tuple[str, ...]) -> None:
    alone = trainfare(*words, "--data", data, shared=False)
    assert alone.out or alone.err
    assert trainfare(*words, "--data", data) == alone


def test_calls_share_a_process_until_it_ends() -> None:
    first = process_id(shared=True)
    assert process_id(shared=True) == first
    assert process_id(shared=False) != first
    done = FORKER.run(f"{__name__}:die", env=without_settings(), cwd=None, timeout_s=60, shared=True)
    assert done.returncode == 7
    assert process_id(shared=True) != first
