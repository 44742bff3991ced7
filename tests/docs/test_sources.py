"""docs/sources: configurations are taken by the collectors, and tables have all of their options."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module

import pytest

from streams.collect.options import CollectorOptions
from streams.collect.registry import COLLECTORS
from tests.docs.sections import DOCS, rows, section

FOLDER = DOCS / "sources"


def text_of(name: str) -> str:
    """What is said of a collector: a page of its own, or a section of a page of several."""
    page = FOLDER / f"{name.replace('-', '_')}.md"
    if page.exists():
        return page.read_text()
    pages = (each.read_text() for each in FOLDER.glob("*.md"))
    return section(next(text for text in pages if f"\n## {name}\n" in text), name)


def options_of(name: str) -> type[CollectorOptions]:
    found: type[CollectorOptions] = import_module(
        f"streams.collect.{COLLECTORS[name].package}.options"
    ).Options
    return found


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_configuration_shown_is_one(name: str) -> None:
    shown = re.findall(r"```toml\n(.*?)```", text_of(name), re.DOTALL)
    assert shown
    for text in shown:
        options_of(name).model_validate(tomllib.loads(text)[name])


@pytest.mark.parametrize("name", COLLECTORS)
def test_every_option_is_in_a_table(name: str) -> None:
    listed = {option for names, *_ in rows(text_of(name)) for option in re.findall(r"`(\w+)`", names)}
    assert set(options_of(name).model_fields) <= listed


def test_each_page_is_reached_from_the_table() -> None:
    index = (DOCS / "sources.md").read_text()
    assert {page.name for page in FOLDER.glob("*.md")} <= set(re.findall(r"sources/(\w+\.md)", index))


def test_each_collector_is_in_the_table() -> None:
    assert {name for name in COLLECTORS if f"[`{name}`]" not in (DOCS / "sources.md").read_text()} == set()
