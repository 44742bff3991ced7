"""docs/reference.md against the command line: neither has what the other lacks."""

import re
from pathlib import Path

from streams.cli import faults
from streams.cli.main import COMMANDS, GROUPS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
VERBS = {name for name, *_ in COMMANDS} | {
    f"{group} {name}" for group, _, inner in GROUPS for name, *_ in inner
}


def _rows(title: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_every_command_is_told_and_no_other() -> None:
    assert [row[0] for row in _rows("Commands")] == [f"trainfare {verb}" for verb in _in_order()]


def _in_order() -> list[str]:
    return [name for name, *_ in COMMANDS] + [
        f"{group} {name}" for group, _, inner in GROUPS for name, *_ in inner
    ]


def test_every_exit_code_is_told_and_no_other() -> None:
    codes = [faults.DONE, faults.FAILED, faults.WRONG_USE, faults.DIFFERENT, faults.INTERRUPTED]
    assert [int(row[0]) for row in _rows("Exit codes")] == codes
    bare = re.compile(r"typer\.Exit\(\d|sys\.exit\(\d|return [1-9]\d*\s*(#|$)", re.MULTILINE)
    for source in (ROOT / "streams" / "cli").glob("*.py"):
        assert not bare.search(source.read_text()), f"{source.name}: a code that has no name in faults.py"


def test_no_page_names_a_command_that_is_not_there() -> None:
    groups = {group for group, *_ in GROUPS}
    for page in PAGES:
        for first, second in re.findall(
            r"(?:^|[`$ ])trainfare ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?", _code(page), re.M
        ):
            verb = f"{first} {second}" if first in groups else first
            assert verb in VERBS, f"{page.name}: trainfare {first} {second}"


def _code(page: Path) -> str:
    """What stands in blocks and between backticks; to kubectl and helm, `trainfare` is a namespace or a release."""
    text = page.read_text()
    blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL)
    blocks = [re.sub(r"^[\s$]*(?:kubectl|helm) .*$", "", block, flags=re.M) for block in blocks]
    return "\n".join(
        [*blocks, *re.findall(r"`(trainfare [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))]
    )
