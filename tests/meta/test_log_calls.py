"""Every log call: a plain event, values as fields, and a runbook entry where the operator should act.

The runbook of each warning and error is looked for in the source.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_QUIET: Final = frozenset({"debug", "info"})
_RESERVED: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message", "asctime", "event", "level", "logger", "timestamp", "exception", "stack",
}  # fmt: skip
_LINK: Final = re.compile(r"docs/(\w+\.md)#([\w-]*)")
_NO_ACTION: Final = {
    "store is available again": "the end of an outage, told at the level of its beginning",
    "reading goes on": "the end of a pause, told at the level of its beginning",
    "late rows of the earlier owner were put right": "already mended; worth a line, as figures changed for a while",
    "later owner found, asking the group which of them counts": "the group decides, and the worker follows",
    "app did not stop in order": "all that matters is stored or will be read again",
}


@dataclass(frozen=True)
class Call:
    """One call of a logger."""

    place: str
    level: str
    event: str | None  # None: no literal, or more positional arguments
    fields: tuple[str, ...]
    runbook: bool


def calls(source: str, place: str) -> Iterator[Call]:
    """The calls of loggers in a module."""
    for node in ast.walk(ast.parse(source)):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LEVELS
        ):
            continue
        if ast.unparse(node.func.value).rpartition(".")[2].strip("_") not in {"log", "logger"}:
            continue
        given = node.args[1:] if node.func.attr == "log" else node.args
        if not given:
            continue  # such as `log(x)` of mathematics
        literal = given[0].value if len(given) == 1 and isinstance(given[0], ast.Constant) else None
        extra = next((each.value for each in node.keywords if each.arg == "extra"), ast.Dict([], []))
        names = tuple(
            each.value
            for each in ast.walk(extra)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )
        keys = [
            key.value
            for each in ast.walk(extra)
            if isinstance(each, ast.Dict)
            for key in each.keys
            if isinstance(key, ast.Constant)
        ]
        yield Call(
            f"{place}:{node.lineno}",
            node.func.attr,
            literal if isinstance(literal, str) else None,
            tuple(map(str, keys)),
            "runbook" in keys and any(_LINK.fullmatch(name) for name in names),
        )


def faults_of(call: Call) -> list[str]:
    """What is wrong with a call, in words."""
    found = []
    if call.event is None or "%" in call.event or "{" in call.event:
        found.append(f"{call.place}: the event is no plain text; hand values over as extra={{...}}")
    if call.level not in _QUIET and not call.runbook and call.event not in _NO_ACTION:
        found.append(f"{call.place}: no runbook for {call.event!r}")
    found += [
        f"{call.place}: {name!r} is no name of a field"
        for name in call.fields
        if name in _RESERVED or not re.fullmatch(r"[a-z][a-z0-9_]*", name)
    ]
    return found


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def wrong_links(source: str) -> set[str]:
    """Links of a source to a page that is not there, or has no such heading."""
    found = {(page, anchor) for page, anchor in _LINK.findall(source) if anchor}
    return {f"{page}#{anchor}" for page, anchor in found if anchor not in anchors(page_text(page))}


def page_text(page: str) -> str:
    """The text of a page of docs/, '' if there is none."""
    path = ROOT / "docs" / page
    return path.read_text() if path.exists() else ""


SOURCES: Final = {
    str(path.relative_to(ROOT)): path.read_text()
    for folder in ("streams", "sinks")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def test_every_call_has_a_plain_event_fields_and_a_runbook_where_one_should_act() -> None:
    found = [call for place, source in SOURCES.items() for call in calls(source, place)]
    assert len(found) > 60, "the calls are not found any more"
    assert [fault for call in found for fault in faults_of(call)] == []
    assert _NO_ACTION.keys() <= {call.event for call in found}, "the list has an event that nobody logs"


def test_every_runbook_is_a_heading() -> None:
    assert {place: links for place, source in SOURCES.items() if (links := wrong_links(source))} == {}


def test_a_wrong_anchor_is_found() -> None:
    source = (
        'extra={"runbook": "docs/trouble.md#lags"}, {"runbook": "docs/trouble.md#lag"}, "docs/gone.md#lag"'
    )
    assert wrong_links(source) == {"trouble.md#lags", "gone.md#lag"}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('logger.warning("lost")', "no runbook"),
        ('self._log.error("lost", extra={"shard": 1})', "no runbook"),
        ('logger.exception("lost", extra={"runbook": "elsewhere"})', "no runbook"),
        ('logger.log(level, "lost", extra={"shard": 1})', "no runbook"),
        ('logger.info("lost %s", shard)', "no plain text"),
        ('logger.info(f"lost {shard}")', "no plain text"),
        ('logger.info("lost", extra={"name": 1})', "no name of a field"),
        ('logger.info("lost", extra={"retryMs": 1})', "no name of a field"),
    ],
)
def test_a_call_that_breaks_a_rule_is_found(source: str, fault: str) -> None:
    (call,) = calls(source, "there.py")
    (found,) = faults_of(call)
    assert fault in found
