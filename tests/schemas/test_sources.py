"""Records of `controls` of kind `source`: what a source has read; anything else in them is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.invalid import Invalid
from schemas.validate_sources import MAX_COUNT, MAX_REASONS, is_source
from streams.accounts.account import Account, EntryClass
from streams.accounts.causes import FREE_RULES, REMEDIES
from streams.accounts.record import source_record
from streams.topics import RECORD_MAX_BYTES

NOW_MS = 1_800_000_000_000
TOLD: dict[str, Any] = {
    "id": "s1",
    "source": "trainfare/sources",
    "time_ms": NOW_MS,
    "kind": "source",
    "name": "slurm",
    "polls": 3,
    "entries": {"metered": 5, "free/no_gpu": 2, "not_understood/unknown_gres": 1},
    "examples": {"unknown_gres": "job 7 holds gres/npu"},
    "standing": ["unknown_gres"],
}


def read(**changes: Any) -> ControlEvent | Invalid:
    record = {name: each for name, each in {**TOLD, **changes}.items() if each is not ...}
    found = decode("controls", json.dumps(record).encode(), (), NOW_MS)
    assert isinstance(found, ControlEvent | Invalid)
    return found


def test_what_a_source_says_is_taken_as_it_is() -> None:
    event = read()
    assert isinstance(event, ControlEvent)
    assert {**event.value, "kind": event.kind} == {
        name: TOLD[name] for name in ("kind", "polls", "entries", "examples", "standing")
    }
    assert isinstance(read(standing=..., examples=..., by="web.write_token"), ControlEvent)


@pytest.mark.parametrize(
    "changes",
    [
        {"polls": ...},
        {"polls": 0},
        {"polls": True},
        {"polls": 1.5},
        {"polls": MAX_COUNT + 1},
        {"entries": ...},
        {"entries": [1]},
        {"entries": {"metered": -1}},
        {"entries": {"metered": True}},
        {"entries": {"metered": "5"}},
        {"entries": {"metered": 1, "free": 1}},
        {"entries": {"metered/x": 1}},
        {"entries": {"not_understood/": 1}},
        {"entries": {"not_understood/A b": 1}},
        {"entries": {"not_understood/" + "x" * 61: 1}},
        {"entries": {f"free/r{number}": 1 for number in range(MAX_REASONS + 1)}},
        {"entries": {"metered": MAX_COUNT + 1}},
        {"examples": ["x"]},
        {"examples": {"unknown_gres": 1}},
        {"examples": {"unknown_gres": "x" * 257}},
        {"examples": {"a\nb": "x"}},
        {"standing": "unknown_gres"},
        {"standing": [1]},
        {"standing": ["A"]},
        {"standing": ["x"] * (MAX_REASONS + 1)},
        {"match": {"team": "x"}},
        {"anything": 1},
    ],
)
def test_anything_else_is_refused(changes: dict[str, Any]) -> None:
    assert isinstance(read(**changes), Invalid)


def test_only_its_own_key_takes_a_record_from_what_people_set() -> None:
    said, owner = read(), ControlEvent("t", "o", 1, "owner", "ada", {})
    assert isinstance(said, ControlEvent)
    assert is_source(b"source/slurm", said)
    assert is_source(b"source/slurm", None)
    assert not is_source(b"source/slurm", owner), "a control under such a key stays in force"
    assert not is_source(b"owner/ada", said)


def test_every_account_makes_a_record_that_is_taken() -> None:
    account = Account()
    for reason in REMEDIES:
        account.not_understood(reason, f"\u00e9\0\x1b{'ä' * 500}", 2**40)
    for rule in FREE_RULES:
        account.free(rule, 2**40)
    record = source_record("s", account, 1, sorted(REMEDIES), NOW_MS)
    text = json.dumps(record).encode()
    assert len(text) < RECORD_MAX_BYTES // 8
    event = decode("controls", text, (), NOW_MS)
    assert isinstance(event, ControlEvent), event


def test_the_sums_of_an_account_are_those_of_its_record() -> None:
    account = Account()
    account.metered(5)
    account.free("no_gpu", 2)
    account.not_understood("unknown_gres", "job 7 holds gres/npu")
    account.counts[EntryClass.FREE, "drivers"] = 0
    record = source_record("slurm", account, 3, ["unknown_gres"], NOW_MS)
    assert {name: record[name] for name in ("polls", "entries", "examples", "standing")} == {
        name: TOLD[name] for name in ("polls", "entries", "examples", "standing")
    }
    assert sum(record["entries"].values()) == account.read
