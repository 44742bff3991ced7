"""docs/settings.md and the pages of single groups are what the models say."""

from __future__ import annotations

from pathlib import Path

from streams.config.load import groups, variable
from streams.config.page import OWN_PAGES, render, render_own

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "settings.md"


def test_page_is_current() -> None:
    """Run `python -m streams.config.page > docs/settings.md` where this fails."""
    assert PAGE.read_text(encoding="utf-8") == render()
    for group in OWN_PAGES:
        assert (DOCS / f"settings_{group}.md").read_text(encoding="utf-8") == render_own(group)


def test_page_names_every_setting() -> None:
    """No setting is left out by the generator itself."""
    text = render() + "".join(map(render_own, OWN_PAGES))
    for group, model in groups().items():
        for name in model.model_fields:
            assert f"| `{name}` | `{variable(group, name)}`" in text
