"""The hand-written pages keep up with the code: links, reasons, settings, figures of the example."""

import gzip
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from schemas.reasons import Reason
from streams.config.load import groups, variable
from streams.config.renamed import BY_FORMER

ROOT = Path(__file__).resolve().parents[2]
WORDS_MAX = 3_500
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_caption(page: Path) -> None:
    wrong = []
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target).read_text() if target else page.read_text()
        captions = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
        if anchor not in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in captions}:
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_read_in_one_sitting(page: Path) -> None:
    assert len(page.read_text().split()) <= WORDS_MAX, "split it by what its readers come for"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_caption_that_has_moved_leads_to_where_it_is(page: Path) -> None:
    """Links of messages that were sent before name the page on which it stood: its anchor stays there, beside a link."""
    text = page.read_text()
    moved = re.findall(r'<a id="([^"]+)"></a>\[[^]]+\]\([\w/]+\.md#([^)]+)\)', text)
    assert len(moved) == text.count("<a id=")


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("0*.md")}


def test_the_runbook_names_every_reason_of_a_dead_letter() -> None:
    section = (
        (ROOT / "docs" / "dead_letters.md").read_text().partition("## Dead letters")[2].partition("\n## ")[0]
    )
    assert {reason.value for reason in Reason} - set(re.findall(r"`(\w+)`", section)) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_settings_that_exist(page: Path) -> None:
    settings = {f"{group}.{name}" for group, model in groups().items() for name in model.model_fields}
    named = re.findall(rf"`((?:{'|'.join(groups())})\.[a-z_]+)\b", page.read_text())
    assert [name for name in named if name not in settings and name not in BY_FORMER] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_programs_that_exist(page: Path) -> None:
    for name in re.findall(r"python -m ([a-z_.]+[a-z_])", page.read_text()):
        assert find_spec(name) is not None, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_variables_that_are_read(page: Path) -> None:
    known = {variable(group, name) for group, model in groups().items() for name in model.model_fields}
    known |= {f"{each}_FILE" for each in known} | {"TRAINFARE_CONFIG", "TRAINFARE_DEBUG", "TRAINFARE_"}
    for module in (ROOT / "setup.py", *(ROOT / "sdk" / "trainfare").glob("*.py")):
        known |= set(re.findall(r'"(TRAINFARE_[A-Z_]+)"', module.read_text()))
    assert set(re.findall(r"\bTRAINFARE_[A-Z_]*", page.read_text())) - known == set()


def test_settings_are_named_in_the_runbook() -> None:
    assert re.findall(r"`meter\.[a-z_]+`", (ROOT / "docs" / "backup.md").read_text())


def test_the_figures_of_the_example_are_those_of_the_file() -> None:
    page = (ROOT / "examples" / "README.md").read_text()
    lines = gzip.decompress((ROOT / "examples" / "helios-500.jsonl.gz").read_bytes()).splitlines()
    events = [json.loads(line)["value"] for line in lines if b'"topic":"jobs"' in line]
    gpus = [event["gpu_count"] for event in events if event["type"] == "started"]
    ends = [event["type"] for event in events]
    said = re.sub(r"\s+", " ", page)
    assert f"{len(lines):,} lines" in said
    assert f"{gpus.count(0)} of the {len(gpus)} jobs have no GPU" in said
    assert f"{sum(count > 1 for count in gpus)} have more than one, the largest has {max(gpus)}" in said
    completed, cancelled, failed = (ends.count(kind) for kind in ("completed", "cancelled", "failed"))
    assert f"{completed} completed, {cancelled} were cancelled, {failed} failed" in said
