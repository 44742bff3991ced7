"""A field that no record has is counted under its name, as it may be a misspelt one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.ignored_fields import IgnoredFields
from tests.cli.command import trainfare
from tests.schemas.records import FULL

PRICE = FULL["prices"]


def said(*records: tuple[str, dict[str, Any]]) -> list[str]:
    ignored = IgnoredFields()
    for topic, record in records:
        ignored.add(topic, json.dumps(record).encode())
    return [*ignored.sentences()]


def test_a_known_record_has_none() -> None:
    assert said(*FULL.items()) == []


def test_each_is_counted_by_topic_and_name() -> None:
    nested = {**PRICE, "match": {"zone": "a"}}
    assert said(("prices", nested), ("prices", nested), ("jobs", {**FULL["jobs"], "gpu_typ\n": "H100"})) == [
        (
            "2 records of prices with the field match, which is not known and was ignored; without it a price is for more "
            "than was meant (docs/reference_events.md#prices)"
        ),
        r"1 record of jobs with the field gpu_typ\n, which is not known and was ignored (docs/usage_events.md#jobs)",
    ]


@pytest.mark.parametrize(
    "value", [None, b"", b"[]", b"{", b"\xff", b'{"specversion": "1.0", "more": 1}', b"[" * 9_999]
)
def test_what_is_no_record_of_the_topic_has_none(value: bytes | None) -> None:
    ignored = IgnoredFields()
    ignored.add("prices", value)
    ignored.add("controls", b'{"more": 1}')
    assert [*ignored.sentences()] == []


def test_many_names_are_not_all_kept() -> None:
    sentences = said(*(("prices", {**PRICE, f"n{number}": 1}) for number in range(500)))
    assert (len(sentences), sentences[-1]) == (11, "and 90 more such fields")


@pytest.mark.timeout(300)
def test_replay_says_it_each_time(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"topic": "prices", "value": {**PRICE, "match": {"zone": "a"}}}) + "\n")
    for _ in range(2):
        done = trainfare("replay", file, "--data", tmp_path / "data", "--format", "json")
        assert done.code == 0, done.err
        assert "1 record of prices with the field match" in done.err
