"""The ten commands of docs/month_close.md, each as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Done, trainfare

PAGE = (ROOT / "docs" / "month_close.md").read_text(encoding="utf-8")
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
    shutil.copytree(ROOT / "examples" / "bills", folder / "examples" / "bills")
    log = ROOT / "examples" / "helios-500.jsonl.gz"
    assert trainfare("replay", log, "--data", "meter", cwd=folder).code == 0
    found = [trainfare(*words, cwd=folder) for words in COMMANDS]
    found.append(Done(0, str((folder / "team-4.pdf").read_bytes()[:5]), ""))
    (folder / "late.csv").write_text("date,resource,usd,category\n2020-04-20,gpu-7,3,correction\n")
    found.append(trainfare("bills", "load", "late.csv", "--data", "meter", cwd=folder))
    return found


@pytest.mark.parametrize("number", range(10))
def test_a_command_of_the_page(number: int, done: list[Done]) -> None:
    assert len(COMMANDS) == 10
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
    assert said[10] == "b'%PDF-'"


def test_a_late_line_of_a_closed_month_is_said_to_be_an_adjustment(done: list[Done]) -> None:
    assert "late.csv: plain list of costs, 1 line, 3 USD; 1 correction\n" in done[11].out
    assert "  2020-04 is closed: its statements stay" in done[11].out


def test_the_page_of_finance_leads_here() -> None:
    assert "](../month_close.md)" in Path(ROOT / "docs/start/finance.md").read_text(encoding="utf-8")
