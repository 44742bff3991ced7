"""A worker frozen in the middle of a checkpoint wakes when others own its shards: what it still writes never wins."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.worker.shards.versions import Version
from tests.chaos.plan import Plan
from tests.chaos.run import Chaos
from tests.chaos.test_chaos import assert_exact
from tests.chaos.workers import Workers
from tests.store_process import StoreProcess

pytestmark = [pytest.mark.kafka, pytest.mark.long]

#: Longer than the session and a takeover: the insert under way lands when its writer is no owner any more.
IN_FLIGHT_S = 12.0
#: Of a machine that is busy otherwise.
TAKEOVER_S = 30.0
PATIENCE_S = 90.0


class ZombieChaos(Chaos):
    """One worker alone is frozen in a flight; its successor comes and goes on; then it wakes."""

    rows_before = rows_after = 0

    def disturb(self, kind: str, workers: Workers, front: StoreProcess) -> None:
        self.report.cycles.append(kind)
        zombie, other = workers.alive
        store = ClickHouseStore(front.target())
        of_both = max(self.generations(store))
        other.kill()
        deadline_s = time.monotonic() + self.plan.session_timeout_ms / 1000 + TAKEOVER_S
        while min(self.generations(store)) <= of_both:
            assert time.monotonic() < deadline_s, (
                "the worker that is left has not stored anything of all shards"
            )
            time.sleep(0.2)
        # So that what was written can still be seen when it has been replaced.
        urlopen(front.url, data=b"SYSTEM STOP MERGES", timeout=10).close()
        generation = max(self.generations(store))
        slow = front.fired().get("slow", 0)
        front.fault("slow", 1, delay_s=IN_FLIGHT_S)
        until(lambda: front.fired().get("slow", 0) > slow)  # a checkpoint is in the store's hands
        zombie.signal(signal.SIGSTOP)
        self.rows_before = rows_of(store, generation)
        successor = workers.start()
        successor.wait_ready()
        until(lambda: max(self.generations(store)) > generation)
        assert rows_of(store, generation) == self.rows_before, "the successor came too late for the test"
        begun = zombie.count("shard begins")
        zombie.signal(signal.SIGCONT)
        until(lambda: rows_of(store, generation) > self.rows_before)
        until(lambda: zombie.count("shard begins") > begun)  # it is one of the group again
        self.rows_after = rows_of(store, generation)
        store.close()

    def generations(self, store: ClickHouseStore) -> list[int]:
        """Of each shard: that of the newest rows."""
        versions = [store.readback.max_version(number) for number in range(self.plan.partitions)]
        return [Version.unpack(version).generation for version in versions]


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def rows_of(store: ClickHouseStore, generation: int) -> int:
    """Rows of any table that were written in this generation of the group or an earlier one, replaced ones too."""
    sql = "SELECT toUInt64(count()) AS n FROM {} WHERE bitAnd(bitShiftRight(version, 32), 1048575) <= {}"
    tables = ("job_minutes", "job_usage_minutes")
    return sum(store.query(sql.format(table, generation))["n"].to_pylist()[0] for table in tables)


def test_what_a_zombie_writes_after_its_successor_has_begun_never_wins(tmp_path: Path) -> None:
    plan = Plan(jobs=40, seconds=800, cycles=1, per_s=1_000, partitions=3, kinds=("zombie",), patience_s=150)
    chaos = ZombieChaos(plan, tmp_path, print)
    report = chaos.go()
    print(report, chaos.rows_before, chaos.rows_after)  # noqa: T201 - the figures of the run
    assert chaos.rows_after > chaos.rows_before, "the zombie wrote nothing, so nothing was shown"
    assert_exact(report)
