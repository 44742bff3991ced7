"""Slurm as it was recorded: its commands answer what they answered then (see `record.py`)."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from streams.collect.collector import Collector
from streams.collect.slurm.collector import open_collector
from streams.collect.slurm.options import Options
from tests.collect.recordings import looks_in

_HERE: Final = Path(__file__).parent
VERSIONS: Final = ("22.05", "24.11", "24.11-v0.0.40")


@cache
def recorded(version: str) -> Sequence[dict[str, Any]]:
    """Return the looks at a cluster of this version."""
    return looks_in(_HERE / f"{version}.jsonl.xz")


@cache
def recorded_nodes(version: str) -> Sequence[dict[str, Any]]:
    """Return what this version said of its nodes: idle; one drained; of 22.05 one down besides, and the other back."""
    looks = looks_in(_HERE / "nodes.jsonl.xz")
    return [each["answer"] for each in looks if each["version"] == version[:5]]


class SlurmWorld:
    """Some of the looks at one cluster, in their order."""

    def __init__(self, directory: Path, version: str = "22.05", every: int = 5) -> None:
        looks = recorded(version)
        nodes = recorded_nodes(version)[0]
        self._looks = [{**look, "nodes": nodes} for look in (*looks[:-1:every], looks[-1])]
        self._answers = directory / "answers.json"
        self._state = 0
        self._is_away = False
        self.allocations = directory / "allocations.json"
        self.states = len(self._looks)

    def options(self, **others: Any) -> Options:
        """Return options for the commands that stand for Slurm's."""
        fake = [sys.executable, "-I", "-S", str(_HERE / "fake.py"), str(self._answers)]
        given: dict[str, Any] = {
            "squeue_command": [*fake, "squeue"],
            "sacct_command": [*fake, "sacct"],
            "nodes_command": [*fake, "nodes"],
            "gpu_types": {"h100": "H100"},
            "allocations_output_file": self.allocations,
        }
        return Options(**{**given, **others})

    def collector(self) -> Collector:
        return open_collector(self.options())

    def turn(self, state: int) -> int:
        self._state = state
        self._write()
        return int(self._looks[state]["time"]) * 1000

    def entries(self, state: int) -> int:
        """Count what squeue and the nodes' command list, and what sacct has of jobs that ended: it is asked for these."""
        look = self._looks[state]
        ended = [job for job in look["sacct"]["jobs"] if job["time"]["end"]]
        return len(look["squeue"]["jobs"]) + len(look["nodes"]["nodes"]) + len(ended)

    def go_away(self) -> None:
        self._is_away = True
        self._write()

    def come_back(self) -> None:
        self._is_away = False
        self._write()

    def shows_no_jobs(self, state: int, command: str) -> None:
        """Let a command list nothing in one of the states."""
        self._looks[state] = {**self._looks[state], command: {"jobs": []}}

    def changes(self, state: int, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the answers in one of the states."""
        look = copy.deepcopy(self._looks[state])
        change(look)
        self._looks[state] = look

    def close(self) -> None:
        pass

    def _write(self) -> None:
        look = {**self._looks[self._state], "away": self._is_away}
        self._answers.write_text(json.dumps(look), encoding="utf-8")
