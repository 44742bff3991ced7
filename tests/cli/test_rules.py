"""`trainfare rules`: what a person sees of a file of rules, without Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.cli.main import main
from streams.rules.file import default_rules

FILE = '[[rule]]\nname = "vision"\nrule = "burn_fast"\nseverity = "page"\nmatch = { team = "vision" }\n'
LIMIT = (
    '[[rule]]\nname = "limit"\nrule = "team_burn"\nthresholds = { usd_per_hour = 400 }\n'
    'match = { team = "vision" }\n'
)


def run(words: list[str]) -> object:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        main(words)
    return done.value.code


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that changes one rule about jobs and one across jobs, of one team."""
    path = tmp_path / "rules.toml"
    path.write_text(FILE + LIMIT)
    return path


def test_check_shows_what_a_file_changes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "check", str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split() for line in shown[:3]] == [
        ["record", "rule", "for", "setting", "default", "set_to"],
        ["vision", "burn_fast", "team=vision", "severity", "ticket", "page"],
        ["limit", "team_burn", "team=vision", "usd_per_hour", "0", "400"],
    ]
    assert shown[-1] == f"2 rules in {file}: no fault"


def test_check_names_faults_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(FILE.replace("burn_fast", "burn"))
    assert run(["rules", "check", str(path)]) == 2
    assert "line 1: [[rule]] 1 ('vision'): rule: got \"burn\", expected one of" in capsys.readouterr().err
    path.write_text('[[rule]]\nname = "a"\nrule = "x"\n[[rule]]\nname = "b"\nrule = "y"\n')
    assert run(["rules", "check", str(path)]) == 2
    each = capsys.readouterr().err.splitlines()
    assert [line.partition(": rule:")[0] for line in each] == [
        f"trainfare: {path} line 1: [[rule]] 1 ('a')",
        f"trainfare: {path} line 4: [[rule]] 2 ('b')",
    ]
    path.write_bytes(b"\xff")
    assert run(["rules", "check", str(path)]) == 2
    assert "not UTF-8" in capsys.readouterr().err
    assert run(["rules", "check", str(tmp_path / "none.toml")]) == 2


def test_a_dry_run_publishes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "publish", str(file), "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith(f"2 rules in {file}; nothing was published\n")


def test_show_by_a_file_and_the_defaults(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "show", "--file", str(file), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rule,for,enabled,severity,thresholds,set_by"
    assert any(line.startswith("burn_fast,team=vision,on,page,") for line in lines)
    assert 'team_burn,team=vision,on,ticket,"usd_per_hour=400, share_ratio=0",limit' in lines
    assert run(["rules", "show", "--defaults"]) == 0
    assert capsys.readouterr().out == default_rules()
