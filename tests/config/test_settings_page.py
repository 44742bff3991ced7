"""docs/settings.md and docs/settings_access.md are what the models say."""

from __future__ import annotations

from pathlib import Path

from streams.config.load import groups, variable
from streams.config.page import render, render_access

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "settings.md"


def test_page_is_current() -> None:
    """Run `python -m streams.config.page > docs/settings.md` where this fails."""
    assert PAGE.read_text(encoding="utf-8") == render()
    assert (DOCS / "settings_access.md").read_text(encoding="utf-8") == render_access()


def test_page_names_every_setting() -> None:
    """No setting is left out by the generator itself."""
    text = render() + render_access()
    for group, model in groups().items():
        for name in model.model_fields:
            assert f"| `{name}` | `{variable(group, name)}`" in text
