"""The drawn pictures against the code: figures in them are those that are in force, and each has its dark colours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.config.settings import MeterSettings
from streams.engine.rules.burn_rule import span_of
from streams.engine.rules.registry import BURN_RULES
from streams.engine.settings import FUTURE_MS
from tests.docs.sections import DOCS, span

DRAWN = sorted(path for path in (DOCS / "images").glob("*.svg") if path.name != "flame.svg")


def texts(name: str) -> str:
    """The words of a picture."""
    return " | ".join(re.findall(r"<text[^>]*>([^<]*)</text>", (DOCS / "images" / name).read_text()))


def test_the_windows_of_burn_rules_are_those_that_are_judged() -> None:
    said = texts("burn-windows.svg")
    for rule in BURN_RULES:
        windows = f"{span_of(rule.long_ms)}, and {span_of(rule.short_ms)}"
        assert f"{rule.name}: {windows}; ratios {rule.long_ratio:g} and {rule.short_ratio:g}" in said


def test_the_horizons_of_late_records_are_those_of_the_settings() -> None:
    said, settings = texts("lateness.svg"), MeterSettings()
    assert f"{span(settings.job_horizon_ms)} before it (meter.job_horizon_ms)" in said
    assert f"{span(settings.late_horizon_ms)} (meter.late_horizon_ms)" in said
    assert f"{span(FUTURE_MS)} after log time" in said


@pytest.mark.parametrize("picture", DRAWN, ids=lambda path: path.name)
def test_a_picture_says_what_it_shows_and_can_be_read_in_the_dark(picture: Path) -> None:
    text = picture.read_text()
    assert re.search(r"<title[^>]*>[^<]+</title>\s*<desc[^>]*>[^<]+</desc>", text)
    dark = text.partition("@media (prefers-color-scheme: dark)")[2]
    assert ".bg" in dark
    assert 'class="bg"' in text, "a ground of its own: the site's switch does not reach into a picture"
    pages = [page.read_text() for page in DOCS.rglob("*.md")]
    assert any(f"images/{picture.name})" in page for page in pages), "on no page"
