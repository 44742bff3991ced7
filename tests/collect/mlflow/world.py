"""MLflow as it was recorded: a server that holds the runs which the real one held then (see `record.py`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from streams.collect.collector import Collector
from streams.collect.mlflow.collector import open_collector
from streams.collect.mlflow.options import Options
from tests.collect.mlflow.server import MlflowServer
from tests.collect.recordings import looks_in

_HERE: Final = Path(__file__).parent
VERSION: Final = "3.17.2"


@cache
def recorded() -> Sequence[dict[str, Any]]:
    """Return the looks at a server."""
    return looks_in(_HERE / f"{VERSION}.jsonl.xz")


class MlflowWorld:
    """The looks at the server, in their order."""

    def __init__(self, directory: Path) -> None:
        del directory
        self.looks = recorded()
        self.states = len(self.looks)
        self.server = MlflowServer()
        self.turn(0)

    def collector(self, **options: Any) -> Collector:
        given = {"url": self.server.address, "interval_s": 1, **options}
        return open_collector(Options.model_validate(given))

    def turn(self, state: int) -> int:
        look = self.looks[state]
        self.server.experiments = look["experiments"]["experiments"]
        self.server.runs = copy.deepcopy(look["runs"]["runs"])
        return int(look["time_ms"]) // 1000 * 1000

    def entries(self, state: int) -> int:
        return len(self.looks[state]["runs"]["runs"])

    def go_away(self) -> None:
        self.server.is_away = True

    def come_back(self) -> None:
        self.server.is_away = False

    def close(self) -> None:
        self.server.close()
