"""Every verb and command that a page promises exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tomllib

import pytest

from streams.cli.main import COMMANDS, GROUPS
from tests.meta.tree import ROOT

VERBS = ("demo", "example", "test", "test-long", "check", "bench", "bench-check", "peers")
PAGES = (
    "README.md",
    ".github/CONTRIBUTING.md",
    *(f"docs/start/{door}.md" for door in ("finance", "job_owner", "platform", "sre")),
)
_BLOCK = re.compile(r"^```(?:sh|bash|console|shell)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_of(markdown: str) -> list[list[str]]:
    """Return the command lines of the page's shell blocks as words; continued lines are one."""
    found = []
    for block in _BLOCK.findall(markdown):
        for line in block.replace("\\\n", " ").splitlines():
            text = line.strip().removeprefix("$ ")
            if text and not text.startswith("#"):
                try:
                    words = shlex.split(text, comments=True)
                except ValueError:
                    continue  # a statement over several lines: its first line is checked by eye
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words.pop(0)
                found.append(words)
    return [words for words in found if words]


def unknown(words: list[str]) -> bool:
    """Return whether a command of ours has a verb that does not exist."""
    program = words[0].rpartition("/")[2]
    rest = [word for word in words[1:] if not word.startswith("-")]
    if program == "make":
        return any(word not in makefile_verbs() for word in rest if "=" not in word)
    if program == "trainfare" and rest:
        groups = {group: {name for name, *_ in verbs} for group, _, verbs in GROUPS}
        if rest[0] in groups:
            return len(rest) < 2 or rest[1] not in groups[rest[0]]
        return rest[0] not in {name for name, *_ in COMMANDS}
    return False


def makefile_verbs() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):.*## ", text, re.MULTILINE))


def test_every_verb_has_a_recipe() -> None:
    done = subprocess.run(["make", "-n", *VERBS], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_verb_exists_and_sets_up_the_environment(verb: str) -> None:
    assert verb in makefile_verbs()
    assert re.search(rf"^{verb}: \$\(STAMP\)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_help_lists_every_verb() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for verb in makefile_verbs():
        assert re.search(rf"^{verb} ", done.stdout, re.MULTILINE)


def test_help_names_every_variable_that_a_verb_takes() -> None:
    variables = re.findall(
        r"^(?:export )?([A-Z_]+) \?=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(variables) > 10
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [name for name in variables if not re.search(rf"\b{name}\b", done.stdout)] == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_the_pages_exist(page: str) -> None:
    wrong = [words for words in commands_of((ROOT / page).read_text(encoding="utf-8")) if unknown(words)]
    assert not wrong


def test_command_guard_fires() -> None:
    page = "```sh\n$ X=1 trainfare fly --now\nmake demo\nmake nothing\ntrainfare prices\ntrainfare prices load f\n```\n"
    assert [words for words in commands_of(page) if unknown(words)] == [
        ["trainfare", "fly", "--now"],
        ["make", "nothing"],
        ["trainfare", "prices"],
    ]


def test_ci_script_runs_everything_and_demands_what_is_real() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    demanded = "TRAINFARE_REQUIRE_KAFKA=1 TRAINFARE_REQUIRE_BROWSER=1 TRAINFARE_REQUIRE_PROMETHEUS=1"
    assert f"export {demanded}\nmake test" in text
    assert "make check" in text
    assert "--durations=25 $(TEST_ARGS)" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert text.rstrip().endswith('exit "$status"')


def test_lint_exceptions_carry_their_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text[text.index("ignore = [") : text.index("[tool.ruff.lint.pydocstyle]")]
    for line in block.splitlines()[1:]:
        if line.strip().startswith('"'):
            assert re.search(r"#\s+\S.{15,}", line), line


def test_lint_exceptions_of_files_are_of_files_that_exist() -> None:
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert [glob for glob in ruff["lint"]["per-file-ignores"] if not any(ROOT.glob(glob))] == []
