"""A cluster as it was recorded: what its API server said is served again, step by step (see `record.py`)."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from streams.collect.collector import Collector
from streams.collect.kubernetes.collector import open_collector
from streams.collect.kubernetes.options import Options
from tests.collect.kubernetes.server import Change, ReplayServer

_HERE: Final = Path(__file__).parent
VERSIONS: Final = ("1.34",)


class Recording(NamedTuple):
    """The changes of pods and of nodes, and for each step its time and the last version that is shown then."""

    changes: dict[str, list[Change]]
    steps: Sequence[tuple[int, int]]


@cache
def recorded(version: str) -> Recording:
    """Return what a server of this version said."""
    changes: dict[str, list[Change]] = {"pods": [], "nodes": []}
    times: dict[int, int] = {}
    newest: dict[int, int] = {}
    with lzma.open(_HERE / f"{version}.jsonl.xz", "rt", encoding="utf-8") as lines:
        for each in map(json.loads, lines):
            if "time" in each:
                times[each["step"]] = each["time"]
            elif each["type"] != "BOOKMARK":
                at = int(each["object"]["metadata"]["resourceVersion"])
                changes[each["kind"]].append(Change(at, each["type"], each["object"]))
                newest[each["step"]] = max(newest.get(each["step"], 0), at)
    steps = [
        (times[step], max(newest.get(before, 0) for before in range(step + 1))) for step in sorted(times)
    ]
    return Recording(
        {kind: sorted(found, key=lambda each: each.version) for kind, found in changes.items()}, steps
    )


class KubernetesWorld:
    """The steps of a recording, over HTTP."""

    def __init__(self, directory: Path, version: str = "1.34") -> None:
        recording = recorded(version)
        self.server = ReplayServer(recording.changes)
        self.allocations = directory / "allocations.json"
        self._steps = recording.steps
        self.states = len(recording.steps)

    def options(self, **others: Any) -> Options:
        """Return options for the server that stands for Kubernetes'."""
        given: dict[str, Any] = {
            "url": self.server.url,
            "cluster": "east",
            "gpu_types": {"NVIDIA-H100-80GB-HBM3": "H100"},
            "allocations_output_file": self.allocations,
        }
        return Options(**{**given, **others})

    def collector(self) -> Collector:
        return open_collector(self.options())

    def turn(self, state: int) -> int:
        time_s, self.server.shown = self._steps[state]
        return time_s * 1000

    def entries(self, state: int) -> int:
        self.server.shown = self._steps[state][1]
        return len(self.server.objects("pods")) + len(self.server.objects("nodes"))

    def go_away(self) -> None:
        self.server.is_away = True

    def come_back(self) -> None:
        self.server.is_away = False

    def close(self) -> None:
        self.server.close()
