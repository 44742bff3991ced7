"""docs/controls.md against the command: what it prints, which kinds there are, its limits and exit codes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from schemas.events import ControlEvent
from streams.cli import faults
from streams.cli.apply import _show
from streams.controls.file import KINDS, TABLES_AT_MOST, TEXT_AT_MOST, FileRecord
from streams.controls.folder import CONTROLS_AT_MOST, FILES_AT_MOST, read_folder
from streams.controls.plan import APPLIED, ApplyPlan, plan_of
from tests.cli.command import ROOT
from tests.docs.sections import DOCS, rows, section

PAGE = (DOCS / "controls.md").read_text()
NOW_MS = 1_795_700_000_000  # 2026-11-26


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, under the name that the page gives it."""
    shutil.copytree(ROOT / "examples" / "controls", tmp_path / "controls")
    monkeypatch.chdir(tmp_path)
    return Path("controls")


def edit(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after, 1)
    file.write_text(text)


def plan(folder: Path, before: list[FileRecord]) -> ApplyPlan:
    in_force = {record.key: record.event for record in before}
    for name in ("silence/a", "silence/b"):
        kind, _, which = name.partition("/")
        in_force[name.encode()] = ControlEvent("trainfare/web", "1", 0, kind, which, {})
    found = read_folder(folder, APPLIED, NOW_MS)
    assert found.faults == []
    return plan_of(found.records, in_force, APPLIED, NOW_MS, prune=False)


def test_the_first_run_is_printed_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = read_folder(folder, APPLIED, NOW_MS).records
    edit(folder / "budgets.toml", ('"10000"', '"12000"'))
    edit(folder / "owners.toml", ("trainfare/grace", "trainfare/grace-2"))
    rules = (folder / "rules.toml").read_text()
    (folder / "rules.toml").write_text(rules[: rules.index('[[rule]]\nname = "no-lengths"')])
    _show(plan(folder, before))
    shown = capsys.readouterr().out
    assert f"$ trainfare apply controls --dry-run\n{shown}nothing was published\n" in PAGE


def test_refusals_are_printed_so(folder: Path) -> None:
    edit(folder / "budgets.toml", ("team =", "tem ="))
    edit(folder / "rules.toml", ('"silent_job"', '"silent_jobs"'))
    refused = read_folder(folder, APPLIED, NOW_MS).faults
    shown = "".join(f"trainfare: {line}\n" for line in refused)
    shown = re.sub(
        r"(got \"silent_jobs\", expected one of \w+, \w+), [\w, ]+(?=;)", r"\1, ...", shown
    )  # all rules
    assert f"$ trainfare apply controls\n{shown}trainfare: nothing was published\n" in PAGE


def test_the_refusal_of_an_ended_silence_is_printed_so(folder: Path) -> None:
    edit(folder / "silences.toml", ("2099-01-01T00:00:00Z", "2026-11-20T08:00:00Z"))
    (fault,) = plan_of(read_folder(folder, APPLIED, NOW_MS).records, {}, APPLIED, NOW_MS, prune=False).faults
    assert f"```\ntrainfare: {fault}\ntrainfare: nothing was published\n" in PAGE


def test_all_kinds_are_named() -> None:
    said = section(PAGE, "Files")
    assert set(re.findall(r"`\[\[(\w+)\]\]`", said.partition("```toml")[0])) == set(KINDS)
    assert {name for row in rows(said) for name in re.findall(r"`(\w+)`", row[0])} == set(KINDS)


def test_the_limits_are_those_of_the_code() -> None:
    assert TEXT_AT_MOST == 2**20
    assert (
        f"**Limits**: {FILES_AT_MOST:,} files of at most 1 MiB, {TABLES_AT_MOST:,} tables of a kind in each,"
        f" {CONTROLS_AT_MOST:,} controls and {TABLES_AT_MOST:,} rules in all."
    ) in PAGE


def test_the_exit_codes_are_those_of_the_command() -> None:
    said = re.findall(r"^\| (\d+) \|", section(PAGE, "First run"), re.MULTILINE)
    assert said == [str(code) for code in (faults.DONE, faults.FAILED, faults.WRONG_USE, faults.DIFFERENT)]
