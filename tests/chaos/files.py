"""Faults of the store's files, after a run: each on a copy, and what an audit says of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from schemas.tables import JOB_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.chaos.run import Chaos
from tests.chaos.workers import Workers
from tests.cli.command import trainfare
from tests.selfcheck.damage import DAMAGE, FOLDER, byte_flipped
from tests.store_process import StoreProcess

#: The checks that rows that are gone show in: hours and totals no longer add up to the minutes.
WATCHING = frozenset({"parts", "ledger_sums", "job_hours", "totals"})
_TRIES = 20  # the engine removes parts that it has merged


class ChaosOfFiles(Chaos):
    """Keeps the parts of a table as they are in the middle of the run."""

    stale: Path

    def disturb(self, kind: str, workers: Workers, front: StoreProcess) -> None:
        super().disturb(kind, workers, front)
        if len(self.report.cycles) == self.plan.cycles // 2:
            self.stale = self._directory / "stale"
            store = ClickHouseStore(front.target())
            try:
                path = Path(str(store.query(FOLDER, {"t": JOB_MINUTES})["path"].to_pylist()[0]))
            finally:
                store.close()
            self._copy(path if path.is_absolute() else self._directory / "store" / path)

    def _copy(self, folder: Path) -> None:
        for _ in range(_TRIES):
            try:
                shutil.copytree(folder, self.stale)
                return
            except shutil.Error:
                shutil.rmtree(self.stale)
        raise AssertionError("parts come and go faster than they can be copied")


def audited(data: Path) -> tuple[int, set[str]]:
    """The exit code of an audit, and the checks that fail."""
    done = trainfare("audit", "--data", data, "--format", "json")
    found: dict[str, Any] = json.loads(done.out) if done.out else {"findings": []}
    return done.code, {each["check"] for each in found["findings"] if not each["ok"]}


def unseen(directory: Path, stale: Path) -> dict[str, str]:
    """By kind of damage, why an audit says too little of it."""
    found: dict[str, str] = {}
    for kind, damage in {**DAMAGE, "a byte flipped": byte_flipped}.items():
        data = Path(shutil.copytree(directory, directory.parent / kind.replace(" ", "_"), symlinks=True))
        damage(data, JOB_MINUTES, stale)
        code, faults = audited(data)
        if code != 1:
            found[kind] = f"the audit ends with {code}"
        elif faults - WATCHING:
            found[kind] = f"other checks see it too: {faults}"
        shutil.rmtree(data)
    return found
