"""The commands of docs/month_close.md, each as it stands there, and the whole output that docs/start/finance.md shows of two."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from tests.cli.command import ROOT, Done, trainfare

PAGE = (ROOT / "docs" / "month_close.md").read_text(encoding="utf-8")
FINANCE = (ROOT / "docs" / "start" / "finance.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(each)[1:]
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for each in block.splitlines()
    if each.startswith("trainfare ")
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """What came of each, one after the other, where `make example` has metered."""
    folder = tmp_path_factory.mktemp("close")
    for name in ("bills", "rates"):
        shutil.copytree(ROOT / "examples" / name, folder / "examples" / name)
    log = ROOT / "examples" / "helios-500.jsonl.gz"
    assert trainfare("replay", log, "--data", "meter", cwd=folder).code == 0
    found = [trainfare(*words, cwd=folder) for words in COMMANDS]
    assert len(found) == len(COMMANDS) == 13
    found.append(Done(0, str((folder / "team-4.pdf").read_bytes()[:5]), ""))
    (folder / "late.csv").write_text("date,resource,usd,category\n2020-04-20,gpu-7,3,correction\n")
    found.append(trainfare("bills", "load", "late.csv", "--data", "meter", cwd=folder))
    return found


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_command_of_the_page(number: int, done: list[Done]) -> None:
    assert done[number].code == 0, done[number].err
    assert "Traceback" not in done[number].err


def test_they_say_what_the_page_says(done: list[Done]) -> None:
    said = [each.out for each in done]
    assert "9440 USD" in said[1]
    assert "missing_tag" in said[2]
    assert "variance_usd" in said[4]
    assert "21,705.42" in said[6]
    assert "nothing was closed" in said[6]
    assert "21,705.42" in said[7]
    assert said[8].endswith("2020-04 is as it was closed\n")
    assert said[10].endswith("3 rates of 1 currency, 2020-04-15 to 2020-04-30; 3 new, 0 restated\n")
    assert [line.split()[1:4] for line in said[11].splitlines()[1:]] == [
        ["2020-04-15", "1", "1.09"],
        ["2020-04-29", "1", "1.084"],
        ["2020-04-30", "1", "1.0876"],
    ]
    assert said[12].endswith(" EUR at 1 EUR for 1.0876 USD of 2020-04-30\n")
    assert said[13] == "b'%PDF-'"


def test_the_page_shows_the_file_of_rates() -> None:
    rates = (ROOT / "examples" / "rates" / "2020-04.csv").read_text(encoding="utf-8")
    assert f"```csv\n{rates}```" in PAGE


def test_the_page_of_finance_shows_all_that_commands_say(done: list[Done]) -> None:
    for command, answer in zip(COMMANDS[1:3], done[1:3], strict=True):
        assert f"$ trainfare {shlex.join(command)}\n{answer.out}" in FINANCE


def test_a_late_line_of_a_closed_month_is_said_to_be_an_adjustment(done: list[Done]) -> None:
    assert "late.csv: plain list of costs, 1 line, 3 USD; 1 correction\n" in done[14].out
    assert "  2020-04 is closed: its statements stay" in done[14].out


def test_the_page_of_finance_leads_here() -> None:
    assert "](../month_close.md#ten-commands)" in FINANCE
    assert "](../month_close.md#in-euros)" in FINANCE
