"""The scenarios of `make bench`: one TOML file each, beside this one, and what runs each kind."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from loadtest import catch_up
from loadtest.catch_up import Plan, Say
from loadtest.latency_world import ROOT, WorldError
from loadtest.replayed import replayed

DIRECTORY: Final = Path(__file__).resolve().parent / "scenarios"
KINDS: Final = ("catch_up", "command", "replay")
_TEXT_AT_MOST: Final = 90
_LINES: Final = 12
_SAID: Final = 3


class ScenarioError(Exception):
    """A scenario's file is not as it must be; the message says how."""


class SkippedError(Exception):
    """The scenario cannot be run here; the message says why."""


@dataclass(frozen=True)
class Scenario:
    """One file."""

    name: str
    about: str
    kind: str
    #: Whether `make bench` runs it without being asked.
    default: bool = True
    #: Of a `catch_up`.
    plan: Plan | None = None
    #: Of a `command`: a module and its arguments; with `json` it takes --out FILE.
    command: tuple[str, ...] = ()
    json: bool = True
    #: Of a `replay`: what `trainfare replay` reads, below the checkout.
    file: str = ""
    #: How that comes to be there.
    made_by: str = ""
    #: Path into what it comes to, with dots -> what to call it in the table.
    figures: Mapping[str, str] = field(default_factory=dict)


def scenarios(directory: Path = DIRECTORY) -> dict[str, Scenario]:
    """All of them, by name."""
    return {path.stem: _read(path) for path in sorted(directory.glob("*.toml"))}


def _read(path: Path) -> Scenario:
    body = tomllib.loads(path.read_text(encoding="utf-8"))
    try:
        plan = body.pop("plan", None)
        if plan is not None and "program" in plan:
            plan["program"] = tuple(plan["program"])
        command = tuple(body.pop("command", ()))
        found = Scenario(path.stem, plan=None if plan is None else Plan(**plan), command=command, **body)
    except TypeError as fault:
        raise ScenarioError(f"{path.name}: {fault}") from None
    lacks = {"catch_up": found.plan is None, "command": not command, "replay": not found.file}.get(found.kind)
    if lacks is None:
        raise ScenarioError(f"{path.name}: kind is {found.kind!r}, expected one of {', '.join(KINDS)}")
    if lacks:
        raise ScenarioError(f"{path.name}: a {found.kind} needs its plan, command or file")
    return found


def run(scenario: Scenario, directory: Path, say: Say, **changed: Any) -> dict[str, Any]:
    """Run one; `changed` are fields of a plan that differ from the file's."""
    if scenario.kind == "catch_up":
        assert scenario.plan is not None
        return catch_up.run(replace(scenario.plan, **changed), directory, say)
    directory.mkdir(parents=True, exist_ok=True)
    if scenario.kind == "replay":
        return _replay(scenario, directory, say)
    return _command(scenario, directory, say)


def _command(scenario: Scenario, directory: Path, say: Say) -> dict[str, Any]:
    say(f"python -m {' '.join(scenario.command)}")
    out = directory / "figures.json"
    written = ("--out", str(out)) if scenario.json else ()
    text = _ran([sys.executable, "-m", *scenario.command, *written])
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if scenario.json else {}
    return {"kind": "command", "command": " ".join(scenario.command), **found, "text": text.splitlines()}


def _replay(scenario: Scenario, directory: Path, say: Say) -> dict[str, Any]:
    source = ROOT / scenario.file
    if not source.exists():
        raise SkippedError(
            f"{scenario.file} is not here{scenario.made_by and ': make it by '}{scenario.made_by}"
        )
    say(f"trainfare replay {scenario.file}")
    return replayed(source, directory / "data")


def _ran(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.splitlines()
        # What it is about comes first, and what a worker said last.
        shown = "\n".join([*said[:_SAID], *said[_SAID:][-_SAID:]])
        raise WorldError(f"{' '.join(command[1:4])} ended with {done.returncode}:\n{shown}")
    return done.stdout


def shown(scenario: Scenario, found: Mapping[str, Any]) -> list[str]:
    """The lines of the table."""
    figures = [f"{_text(_at(found, path))} {name}" for path, name in scenario.figures.items()]
    return figures or [str(line)[:_TEXT_AT_MOST] for line in found.get("text", ())[-_LINES:]]


def _at(found: Mapping[str, Any], path: str) -> Any:
    value: Any = found
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
