"""Peers live in places of their own: pinned by hash, apart from our code, and whoever lacks one says why."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.peers import homes
from loadtest.peers.catalogue import PEERS
from loadtest.peers.homes import MissingError
from loadtest.peers.machine import Meter, descendants
from loadtest.peers.task import Task
from tests.kafka.broker import VERSION
from tests.meta.test_lock import entries, places, unhashed
from tests.meta.tree import ROOT

PEERS_DIR = ROOT / "loadtest" / "peers"
REQUIREMENTS = sorted(PEERS_DIR.glob("requirements-*.txt"))
OURS = ("loadtest", "schemas", "sinks", "streams", "tests")


def of_ours(source: str) -> set[str]:
    """Our modules that a source imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if name.split(".")[0] in OURS}


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.stem)
def test_requirements_are_pinned_by_hash_and_name_no_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(entries(text)) > 5
    assert not unhashed(text)
    assert not places(text)


def test_every_environment_has_its_requirements() -> None:
    assert [path.stem for path in REQUIREMENTS] == [
        f"requirements-{name}" for name in ("bytewax", "pathway", "quix")
    ]


def test_peers_use_nothing_of_ours_but_their_task() -> None:
    programs = {peer.program[0] for peer in PEERS if peer.program[0].startswith("loadtest.")}
    assert len(programs) == 6
    for name in programs:
        source = (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert of_ours(source) == {"loadtest.peers.task"}
    assert not of_ours((PEERS_DIR / "task.py").read_text(encoding="utf-8"))
    assert of_ours("from streams.topics import Topic\nimport sinks.x\nimport json") == {
        "streams.topics",
        "sinks.x",
    }


def test_kafka_streams_is_of_the_broker_s_version() -> None:
    assert homes.pom_version("kafka") == VERSION
    assert homes.pom_version("flink").count(".") == 2
    with pytest.raises(MissingError, match=r"names no version of spark"):
        homes.pom_version("spark")


def test_without_java_its_peers_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingError, match="no `java` on the PATH"):
        homes.java()


def test_an_environment_that_cannot_be_made_says_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "python3.11"
    said.write_text("#!/bin/sh\necho first\necho 'no room left' >&2\nexit 3\n", encoding="utf-8")
    said.chmod(0o755)
    monkeypatch.setattr(homes, "ENVIRONMENTS", tmp_path / "environments")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(MissingError, match=r"^python3\.11: no room left$"):
        homes.environment("quix")


def test_an_environment_that_is_made_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []

    def run(command: list[str]) -> str:
        made.append(command)
        (tmp_path / "quix").mkdir(exist_ok=True)
        return "3.0\n"

    monkeypatch.setattr(homes, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(homes, "_run", run)
    homes.environment("quix")
    assert len(made) == 2
    assert "--require-hashes" in made[1]
    home = homes.environment("quix")
    assert len(made) == 2
    assert home.version("quixstreams") == "3.0"
    (tmp_path / "quix" / ".made-from").write_text("other", encoding="ascii")
    homes.environment("quix")
    assert len(made) == 5


def test_a_task_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("b:1", "t", "g", 10, 8, 10_000, 1, str(tmp_path), 0, 8)
    monkeypatch.setattr(sys, "argv", ["peer", str(task.write())])
    assert Task.given() == task


def test_children_are_not_others() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert child.pid in descendants(os.getpid())
        assert os.getpid() not in descendants(os.getpid())
    finally:
        child.kill()
        child.wait()
    with Meter() as meter:
        pass
    assert meter.others_cores >= 0
