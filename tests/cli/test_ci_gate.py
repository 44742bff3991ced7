"""`examples/ci`: what the action of GitHub runs, and that no input of it becomes part of a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from streams.cli.gate import gate
from tests.meta.tree import ROOT

CI = ROOT / "examples" / "ci"
ACTION: dict[str, Any] = yaml.safe_load((CI / "github-gate" / "action.yml").read_text())
[STEP] = ACTION["runs"]["steps"]


def run(folder: Path, code: int = 0, **inputs: str) -> tuple[int, list[str]]:
    """Run the step with a command that notes its arguments; return its exit code and them."""
    command, seen = folder / "trainfare", folder / "seen.json"
    command.write_text(
        f"#!{sys.executable} -S\nimport json, sys\njson.dump(sys.argv[1:], open({str(seen)!r}, 'w'))\nsys.exit({code})\n"
    )
    command.chmod(0o755)
    values = {name: each["default"] for name, each in ACTION["inputs"].items()} | {"project": "acme/vision"}
    values |= {"trainfare": str(command)} | {name.replace("_", "-"): text for name, text in inputs.items()}
    environment = {
        name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in STEP["env"].items()
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEP["run"]],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=folder,
        check=False,
    )
    return done.returncode, json.loads(seen.read_text()) if seen.exists() else []


def test_it_asks_for_what_was_named(tmp_path: Path) -> None:
    arguments = ["gate", "--team", "vision", "--project", "acme/vision", "--need", "120", "--gpu-hours", "0"]
    assert run(tmp_path, team="vision", need="120") == (0, arguments)


def test_a_budget_that_leaves_too_little_fails_the_step(tmp_path: Path) -> None:
    assert run(tmp_path, code=1)[0] == 1


def test_no_input_is_run(tmp_path: Path) -> None:
    hostile = '$(touch here) `touch here`; touch here "'
    code, arguments = run(tmp_path, team=hostile)
    assert (code, arguments[2]) == (0, hostile)
    assert not (tmp_path / "here").exists()
    assert "inputs." not in STEP["run"]


def test_the_command_has_the_options() -> None:
    shown = CliRunner().invoke(_app(), ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for option in ("--team", "--owner", "--project", "--experiment", "--need", "--gpu-hours"):
        assert option in shown
    assert (
        "trainfare gate --project"
        in yaml.safe_load((CI / "gitlab-gate.yml").read_text())["gate"]["script"][0]
    )


def _app() -> Any:
    import typer

    app = typer.Typer()
    app.command()(gate)
    return app
