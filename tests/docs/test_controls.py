"""Every example of a control in the docs and the examples has an effect, taken as the meter takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.controls.file import KINDS, FileRecord, read_controls_file
from streams.engine.alerts.beside_others import fault_beside
from streams.engine.alerts.budgets import own_budget
from streams.engine.alerts.controls import Controls
from streams.rules.file import rule_records
from streams.web.control_record import control_record
from tests.cli.command import ROOT
from tests.control_faults import control_faults

NOW_MS = 1_780_308_000_000
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^\{.*\}$", re.MULTILINE)
_BODY = re.compile(r"api/v1/controls.*? -d '(\{.*\})'", re.DOTALL)
_SHELL = re.compile(r"'\$\(\(.*?\)\)'")
_TABLES = re.compile(r"^\[\[(\w+)\]\]", re.MULTILINE)
#: Tables of files that are no controls; tests of theirs load them.
_OTHERS = {"allocation", "commitment", "roles"}


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    for folder in ("docs", "examples", "deploy"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    for page in pages():
        for number, (language, text) in enumerate(_BLOCK.findall(page.read_text()), 1):
            if language in languages:
                yield f"{page.relative_to(ROOT)} block {number}", text


def records() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of `controls`: lines of pages, and of logs that are shipped."""
    lines = [(where, line) for where, text in blocks("json", "", "sh") for line in _LINE.findall(text)]
    for log in sorted((ROOT / "examples").rglob("*.jsonl")):
        named = str(log.relative_to(ROOT))
        lines += [(named, line) for line in log.read_text().splitlines() if '"controls"' in line]
    for where, line in lines:
        said = json.loads(line)
        value = said.get("value", said) if said.get("topic", "controls") == "controls" else {}
        if isinstance(value, dict) and value.get("kind") in KINDS and "source" in value:
            yield where, value


RECORDS = list(records())


def tables() -> Iterator[tuple[str, str]]:
    """Each text of TOML with tables of controls: of pages, and files that are shipped."""
    for where, text in blocks("toml", "", "sh"):
        if {*_TABLES.findall(text)} & {*KINDS}:
            yield where, text
    for file in sorted((ROOT / "examples" / "controls").rglob("*.toml")):
        yield str(file.relative_to(ROOT)), file.read_text()


TABLES = list(tables())


def table_records() -> list[FileRecord]:
    found = [read_controls_file(where, text, "t", NOW_MS) for where, text in TABLES]
    assert [fault for content in found for fault in content.faults] == []
    return [record for content in found for record in content.records]


def in_force(controls: Controls) -> int:
    """How many controls there are."""
    every = (controls.planned, controls.budgets, controls.overrides, controls.rules, controls.fleet_rules)
    return sum(map(len, every)) + len(controls.receipts) + len(controls.own_rules)


def test_there_are_examples_of_all_kinds_of_records() -> None:
    assert {value["kind"] for _, value in RECORDS} >= {
        "owner", "silence", "planned", "budget", "override", "receipt"
    }  # fmt: skip


@pytest.mark.parametrize(("where", "value"), RECORDS)
def test_a_record_has_an_effect(where: str, value: dict[str, Any]) -> None:
    assert control_faults(json.dumps(value).encode()) == [], where


def test_a_record_changes_something_beside_the_others_when_it_is_published() -> None:
    """An override has its budget, a silence its end to come, a rule something else than the defaults."""
    events = [decode("controls", json.dumps(value).encode(), (), NOW_MS * 2) for _, value in RECORDS]
    known = [event for event in events if isinstance(event, ControlEvent)]
    assert len(known) == len(events)
    assert [fault for event in known if (fault := fault_beside(event, None, known, event.time_ms))] == []


@pytest.mark.parametrize(("where", "text"), TABLES)
def test_tables_are_taken_without_a_fault(where: str, text: str) -> None:
    found = read_controls_file(where, text, "t", NOW_MS)
    assert found.faults == []
    assert len(found.records) == len(_TABLES.findall(text))


def test_a_table_changes_something_beside_the_others() -> None:
    records = table_records()
    events = [record.event for record in records]
    assert {event.kind for event in events} >= {"owner", "budget", "rule", "silence", "planned", "override"}
    assert [
        record.fault(fault)
        for record in records
        if (fault := fault_beside(record.event, None, events, NOW_MS))
    ] == []


def test_every_block_that_looks_like_a_control_is_among_those_that_are_checked() -> None:
    """A table is of a kind that there is, an option of a collector, or of a file of another kind."""
    unknown = {
        (where, name)
        for where, text in blocks("toml", "", "sh")
        for name in re.findall(r"^\[\[\s*([^\]]+?)\s*\]\]", text, re.MULTILINE)
        if name not in {*KINDS} | _OTHERS and not name.endswith(".rules")
    }
    assert unknown == set()


def test_the_ladder_of_the_page_is_the_ladder_that_is_taken() -> None:
    ladders = [text for _, text in blocks("json") if text.startswith('"actions"')]
    assert ladders
    for text in ladders:
        fields = json.loads("{" + text + "}")
        value = {
            "source": "t", "id": "1", "time_ms": NOW_MS, "kind": "budget", "name": "b", "usd": "400", **fields
        }  # fmt: skip
        assert control_faults(json.dumps(value).encode()) == []


@pytest.mark.parametrize(("where", "text"), list(blocks("", "sh", "json")))
def test_a_body_that_is_posted_is_taken(where: str, text: str) -> None:
    for body in _BODY.findall(text):
        asked = json.loads(_SHELL.sub(str(NOW_MS + 3_600_000), body))
        assert control_record(asked, "web", NOW_MS).kind == asked["kind"], where


def test_some_body_is_posted() -> None:
    assert any(_BODY.search(text) for _, text in blocks("", "sh", "json"))


@pytest.mark.parametrize(
    ("where", "text"), [each for each in TABLES if {*_TABLES.findall(each[1])} == {"rule"}]
)
def test_a_file_of_rules_is_taken(where: str, text: str) -> None:
    found = rule_records("rules.toml", text, NOW_MS)
    controls = Controls.from_events(each.event for each in found)
    assert (in_force(controls), controls.faults) == (len(found), ()), where


def test_a_budget_of_a_job_is_taken() -> None:
    """`"budget": {...}` in a job's event, wherever a page shows one."""
    inside = re.compile(r'"budget": (\{[^{}]*\})')
    found = [json.loads(each) for page in pages() for each in inside.findall(page.read_text())]
    own = [each for each in found if not each.keys() & {"name", "subject"}]
    assert own
    assert all(own_budget({name: str(value) for name, value in each.items()}) is not None for each in own)
