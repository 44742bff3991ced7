"""`trainfare apply` without Kafka: what is refused before anything is read or sent, and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.cli.main import main
from streams.engine.rules.registry import LEDGER_RULES, NAMES
from streams.errors import TrainfareError
from streams.transport import admin
from tests.cli.command import NOBODY


def run(*words: object) -> object:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    return done.value.code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINFARE_KAFKA_BOOTSTRAP_SERVERS", NOBODY)
    made = tmp_path / "controls"
    made.mkdir()
    return made


def test_faults_of_all_files_are_printed_without_what_would_steer_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.toml").write_text('[[budget]]\nname = "b\\u001b[31m\\u202e"\nusd = 1\ntem = "v"\n')
    (folder / "b\x1b.toml").write_text('[[rule]]\nname = "r"\nrule = "burn_fsat"\n')
    assert run("apply", folder) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    first, second, last = shown.err.splitlines()
    assert first.startswith(
        f"trainfare: {folder}/a.toml line 4: budget/b\\x1b[31m\\u202e: tem: no such match field"
    )
    assert second.startswith(f"trainfare: {folder}/b\\x1b.toml line 3: rule/r: rule: got")
    assert last == "trainfare: nothing was published"


def test_twenty_faults_are_shown_and_the_rest_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.toml").write_text("".join(f'[[rule]]\nname = "{k}"\nrule = "x"\n' for k in range(23)))
    assert run("apply", folder, "--dry-run") == 2
    assert capsys.readouterr().err.splitlines()[19:] == [
        f"trainfare: {folder}/a.toml line 60: rule/19: " + _UNKNOWN,
        "trainfare: and 3 more",
        "trainfare: nothing was published",
    ]


_UNKNOWN = f'rule: got "x", expected one of {", ".join((*NAMES, *LEDGER_RULES))}'


@pytest.mark.parametrize("words", [("--set", "a b"), ("--set", "x" * 65), ("--format", "xml")])
def test_options_are_checked(folder: Path, words: tuple[str, ...]) -> None:
    assert run("apply", folder, *words) == 2


def test_files_alone_are_checked_without_kafka(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.toml").write_text('[[silence]]\nname = "s"\nteam = "a"\n')
    main_code = run("apply", folder, "--check")
    assert main_code == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("1 control in 1 file: no fault; nothing was compared")
    assert shown.err == ""
    (folder / "b.toml").write_text('[[silence]]\nname = "t"\ntem = "a"\n')
    assert run("apply", folder, "--check") == 2


def test_without_a_broker_it_says_what_it_waits_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.toml").write_text('[[silence]]\nname = "s"\nteam = "a"\n')
    asked: list[float] = []

    def nobody(_kafka: object, timeout_s: float = 10.0) -> None:
        asked.append(timeout_s)
        raise TrainfareError("no Kafka broker answers")

    monkeypatch.setattr(admin, "connect", nobody)
    assert run("apply", folder, "--dry-run") != 0
    assert f"trainfare: waiting for Kafka at {NOBODY}, " in capsys.readouterr().err
    assert len(asked) == 2
    assert asked[0] < 2
