"""The documentation site: every page has its place in it, the four doors are there, links and captions are those of the files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.site import hooks
from tests.meta.test_lock import names_in, places, unhashed

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SITE: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
DOORS = ("platform", "job_owner", "finance", "sre")


def nav_pages(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nav_pages(child)


def missing_or_twice(nav: Any, pages: set[str]) -> list[str]:
    counts = Counter(nav_pages(nav))
    return sorted(page for page in pages | set(counts) if counts[page] != 1 or page not in pages)


def test_every_page_stands_once_in_the_navigation() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    outside = {hooks.site_path(path) for path in hooks.outside_files(ROOT)}
    listed = [page for page in nav_pages(SITE["nav"]) if page.startswith(hooks.OUTSIDE)]
    assert missing_or_twice(SITE["nav"], pages | set(listed)) == []
    assert set(listed) <= outside


def test_a_page_that_is_missing_or_listed_twice_is_found() -> None:
    nav = [{"Home": "a.md"}, {"More": ["b.md", {"Again": "a.md"}, "gone.md"]}]
    assert missing_or_twice(nav, {"a.md", "b.md", "c.md"}) == ["a.md", "c.md", "gone.md"]


@pytest.mark.parametrize("door", DOORS)
def test_each_door_is_on_the_home_page_and_shows_a_picture(door: str) -> None:
    assert f"](start/{door}.md)" in (DOCS / "README.md").read_text(encoding="utf-8")
    page = (DOCS / "start" / f"{door}.md").read_text(encoding="utf-8")
    assert re.search(r"!\[[^]]{20,}\]\(\.\./images/[\w-]+\.(png|svg)\)", page)


def test_the_build_is_strict_and_asks_no_other_host() -> None:
    assert SITE["strict"] is True
    assert SITE["theme"]["font"] is False
    assert SITE["plugins"] == ["search", "offline"]
    assert all(level == "warn" for group in SITE["validation"].values() for level in group.values())
    assert not {"repo_url", "site_url", "extra_javascript", "extra_css"} & SITE.keys()


def test_the_packages_of_the_site_are_locked_apart() -> None:
    lock = (ROOT / "requirements-docs.lock").read_text(encoding="utf-8")
    assert {"mkdocs", "mkdocs-material"} <= names_in(lock)
    assert not unhashed(lock)
    assert not places(lock)


def test_make_and_ci_build_it() -> None:
    assert re.search(r"^site: ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]["all"]
    assert any(step.get("run", "").startswith("make site ") for step in steps["steps"])


# ---------------------------------------------------------------------------------------------------- the hooks


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in {
        "README.md": "[docs](docs/README.md) [folder](examples/lists) ![seen](docs/images/a.png)",
        "LICENSE": "",
        "docs/README.md": "[a](deep/a.md#one) [r](../README.md#try-it) [web](https://example.com/x.md)",
        "docs/deep/a.md": "[`x`](../../streams/x.py) `[no](../../LICENSE)` [own](#one)\n```\n[no](../../LICENSE)\n```",
        "docs/images/a.png": "",
        "streams/x.py": "",
        "examples/lists/one.csv": "",
        ".github/CONTRIBUTING.md": "[up](../README.md)",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_what_pages_link_to_outside_docs_comes_along(tree: Path) -> None:
    listing = "# examples/lists\n\n- [one.csv](one.csv)\n"
    assert hooks.outside_files(tree) == {
        "README.md": None,
        "examples/lists/README.md": listing,
        "examples/lists/one.csv": None,
        "streams/x.py": None,
    }


@pytest.mark.parametrize(
    ("page", "link", "leads"),
    [
        ("docs/README.md", "deep/a.md#one", "deep/a.md#one"),
        ("docs/README.md", "../README.md#try-it", "repo/README.md#try-it"),
        ("docs/deep/a.md", "../../streams/x.py", "../repo/streams/x.py"),
        ("docs/deep/a.md", "../README.md", "../README.md"),
        ("docs/deep/a.md", "#one", "#one"),
        ("docs/deep/a.md", "https://example.com/a.md", "https://example.com/a.md"),
        ("README.md", "docs/deep/a.md", "../deep/a.md"),
        ("README.md", "examples/lists", "examples/lists/README.md"),
        ("README.md", "docs/images/a.png", "../images/a.png"),
        (".github/CONTRIBUTING.md", "../README.md", "../README.md"),
        ("docs/README.md", "gone.md", "gone.md"),
        ("docs/README.md", "../../elsewhere.md", "../../elsewhere.md"),
    ],
)
def test_a_link_leads_to_its_place_on_the_site(tree: Path, page: str, link: str, leads: str) -> None:
    assert hooks.rewritten(tree, page, f"see [`x`]({link}).") == f"see [`x`]({leads})."


def test_code_is_not_rewritten(tree: Path) -> None:
    code = "`[x](../README.md)`\n```\n[x](../README.md)\n```\n~~~\n```\n[x](../README.md)\n~~~"
    assert hooks.rewritten(tree, "docs/README.md", code) == code
    assert hooks.links(code) == []


def test_a_name_that_begins_with_a_dot_is_served_without_it() -> None:
    assert hooks.site_path(".github/CONTRIBUTING.md") == "repo/github/CONTRIBUTING.md"


@pytest.mark.parametrize(
    "caption", ["Page and API", "`m1` to `m10`: a list", "Spot, bought at 40 %", "AWS's"]
)
def test_captions_have_the_anchors_that_the_links_of_the_files_use(caption: str) -> None:
    # As tests/docs/test_pages.py reads them.
    assert hooks.slug(caption, "-") == re.sub(r"[^\w -]", "", caption).lower().replace(" ", "-")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("text\n- a\n- b\n", "text\n\n- a\n- b\n"),
        ("text\n1. a\n", "text\n\n1. a\n"),
        ("text\n| a |\n|---|\n", "text\n\n| a |\n|---|\n"),
        ("- a\n  b\n- c\n", "- a\n    b\n- c\n"),
        ("1. a\n   ```\n   x\n     y\n   ```\n2. b\n", "1. a\n\n    ```\n    x\n      y\n    ```\n2. b\n"),
        ("- a\n\nnext\n- b\n", "- a\n\nnext\n\n- b\n"),
        ("```\ntext\n- a\n| b\n```\n", "```\ntext\n- a\n| b\n```\n"),
        ("text\n```\na\n```\n", "text\n\n```\na\n```\n"),
    ],
)
def test_lists_tables_and_code_are_laid_out_as_the_site_reads_them(before: str, after: str) -> None:
    assert hooks.laid_out(before) == after


def test_a_page_asks_no_other_host() -> None:
    shim = '<script src="https://cdn.example.com/iframe-worker/shim"></script>'
    assert hooks.own_worker(shim, "..") == f'<script src="../{hooks.WORKER}"></script>'
    assert hooks.own_worker('<a href="https://example.com">x</a>', ".")
    for loaded in ('<script src="https://a.example/x.js">', "<img alt=x src=//a.example/x.png>"):
        with pytest.raises(ValueError, match=r"loads (https:)?//a\.example/x"):
            hooks.own_worker(loaded, ".")
