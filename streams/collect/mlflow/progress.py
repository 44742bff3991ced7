"""How far MLflow was read: the attempts of runs that are known. Plain values, stored as JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from streams.collect.collector import Position
from streams.errors import TrainfareError

#: How many ended runs are remembered, each with the number of its last attempt; those that ended first are forgotten.
_ENDED_AT_MOST: Final = 10_000


class KnownRun(msgspec.Struct, frozen=True, array_like=True):
    """A run as it was reported last; `ended_ms` is the end of its newest attempt, 0 while that goes on."""

    attempt: int
    ended_ms: int = 0
    described: str = ""  # digests of what was reported
    measured: str = ""


class _StoredMlflowRuns(msgspec.Struct):
    since_ms: int
    read_ms: int
    runs: dict[str, KnownRun]


class RunProgress:
    """A position, taken apart: `read_ms` is when MLflow was read last (0: never)."""

    def __init__(self, since_ms: int, read_ms: int, runs: dict[str, KnownRun]) -> None:
        self.since_ms = since_ms
        self.read_ms = read_ms
        self.runs = runs

    @classmethod
    def of(cls, position: Position | None, since_ms: int) -> RunProgress:
        """The progress of a position; `since_ms` is used where there is none yet.

        Raises:
            TrainfareError: It is not one that this collector stored.
        """
        if position is None:
            return cls(since_ms, 0, {})
        try:
            stored = msgspec.convert(position, _StoredMlflowRuns)
        except msgspec.ValidationError:
            raise TrainfareError(
                "the position is not one of mlflow's; remove its file to read MLflow from `since` on"
            ) from None
        return cls(stored.since_ms, stored.read_ms, stored.runs)

    def position(self) -> dict[str, Any]:
        """Copy it into a position to store; later polls do not change the copy."""
        return {
            "since_ms": self.since_ms,
            "read_ms": self.read_ms,
            "runs": {run_id: msgspec.to_builtins(run) for run_id, run in self.runs.items()},
        }

    def forget(self) -> None:
        """Forget runs that ended long before others."""
        ended = [(run.ended_ms, run_id) for run_id, run in self.runs.items() if run.ended_ms]
        for _, run_id in sorted(ended)[: max(len(ended) - _ENDED_AT_MOST, 0)]:
            del self.runs[run_id]
