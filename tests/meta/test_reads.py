"""Whatever a user may set or send is read by something: a field that nobody reads promises what nobody does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from schemas import events
from streams.config.load import groups
from streams.config.settings import Settings

ROOT = Path(__file__).parents[2]
#: Defines, checks and documents settings, and does not act on them.
_DEFINES = ROOT / "streams" / "config"
EVENTS = ("JobEvent", "GpuEvent", "TrafficEvent", "NodeEvent", "PriceEvent", "ControlEvent")
#: What is accepted and kept, and not acted on yet; each with what is said to whoever sends it.
KEPT_ONLY = {
    "JobEvent.budget": "kept with the job; docs/budgets.md says that budgets guard nothing yet",
    "JobEvent.deadline_ms": "kept with the job; needs budgets to be judged against",
}

#: `WebSettings.tokens()` reads them by the names of scopes.
READ_BY_SCOPE = {"web.metrics_token", "web.read_token", "web.query_token", "web.write_token"}


@cache
def read_names(*folders: str) -> frozenset[str]:
    """Attributes that are read and names in strings, in the code of some folders."""
    found: set[str] = set()
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent == _DEFINES:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return frozenset(found)


def settings() -> Iterator[str]:
    for group, model in groups().items():
        for name in model.model_fields:
            yield f"{group}.{name}"


def fields() -> Iterator[str]:
    for kind in EVENTS:
        for name in getattr(events, kind).__struct_fields__:
            yield f"{kind}.{name}"


def test_the_lists_are_not_empty() -> None:
    assert len(list(settings())) > 50
    assert len(list(fields())) > 60
    assert set(Settings.model_fields) >= set(groups())
    assert all(issubclass(getattr(events, kind), msgspec.Struct) for kind in EVENTS)


@pytest.mark.parametrize("setting", list(settings()))
def test_a_setting_is_read(setting: str) -> None:
    assert setting in READ_BY_SCOPE or setting.partition(".")[2] in read_names("streams", "sinks")


@pytest.mark.parametrize("name", list(fields()))
def test_a_field_of_an_event_is_read(name: str) -> None:
    is_read = name.partition(".")[2] in read_names("streams")
    assert is_read or name in KEPT_ONLY


def test_a_field_that_nobody_reads_is_found() -> None:
    assert "a_field_that_nobody_reads"[::-1] not in read_names("streams", "sinks")
