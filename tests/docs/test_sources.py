"""docs/sources.md: its configurations are taken by the collectors, and its tables have all of their options."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module

import pytest

from streams.collect.options import CollectorOptions
from streams.collect.registry import COLLECTORS
from tests.docs.sections import DOCS, rows, section

PAGE = (DOCS / "sources.md").read_text()


def options_of(name: str) -> type[CollectorOptions]:
    found: type[CollectorOptions] = import_module(
        f"streams.collect.{COLLECTORS[name].package}.options"
    ).Options
    return found


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_configuration_shown_is_one(name: str) -> None:
    shown = re.findall(r"```toml\n(.*?)```", section(PAGE, name), re.DOTALL)
    assert shown
    for text in shown:
        options_of(name).model_validate(tomllib.loads(text)[name])


@pytest.mark.parametrize("name", COLLECTORS)
def test_every_option_is_in_a_table(name: str) -> None:
    listed = {option for names, *_ in rows(section(PAGE, name)) for option in re.findall(r"`(\w+)`", names)}
    assert set(options_of(name).model_fields) <= listed
