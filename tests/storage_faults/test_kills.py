"""Kills in the middle of inserts: of a replay, of a worker with its own ClickHouse, of the server that workers share.

However often and whenever they come, the tables end equal to the oracle's.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.chaos.fleet import PLANTED, Fleet
from tests.chaos.stored import stored_tables
from tests.cli.command import ROOT
from tests.oracle.compute import compute
from tests.oracle.model import Line
from tests.property.compare import differences
from tests.storage_faults.killed import inside
from tests.storage_faults.rig import PATIENCE_S, rig
from tests.store_process import StoreProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

KILLS = 12
SEED = 1
AT_MOST_MS = 12.0  # an insert of these sizes takes some milliseconds
EVENTS = 1_500


def test_a_replay_killed_in_inserts_ends_with_the_oracles_tables(tmp_path: Path) -> None:
    fleet, rng = Fleet(SEED, 40, 600), random.Random(SEED)
    events = [event for event in fleet.events() if PLANTED not in event.value]
    log, data, marks = tmp_path / "log.jsonl", tmp_path / "data", tmp_path / "marks"
    log.write_text("".join(f'{{"topic":"{e.topic}","value":{e.value.decode()}}}\n' for e in events))

    def life(number: int, delay_ms: float) -> int:
        killed = ("tests.storage_faults.killed", str(marks), str(number), str(delay_ms))
        words = ("replay", str(log), "--data", str(data), "--as-of", str(fleet.as_of_ms))
        done = subprocess.run(
            [sys.executable, "-m", *killed, *words], cwd=ROOT, capture_output=True, timeout=240, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()[-3000:]
        return done.returncode

    lives = in_inserts = 0
    while in_inserts < KILLS:
        lives += 1
        assert lives < 4 * KILLS, "the kills came between the inserts"
        assert life(rng.randrange(3, 16), rng.uniform(0, AT_MOST_MS)) != 0, "the log is too short"
        in_inserts += inside(marks)
    assert life(0, 0) == 0
    lines = [Line(event.topic, json.loads(event.value)) for event in events]
    want = compute(lines, as_of_ms=fleet.as_of_ms)
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        assert not (found := differences(stored_tables(store), want, counts=False)), found[:12]
    finally:
        store.close()
    print(f"{in_inserts} of {lives} kills of a replay came in an insert; {len(want.ledger)} ledger rows")  # noqa: T201 - what a long run is made for


@pytest.mark.kafka
def test_a_worker_with_its_own_clickhouse_killed_in_inserts(tmp_path: Path) -> None:
    rng, data, marks = random.Random(SEED), tmp_path / "data", tmp_path / "marks"
    with rig(
        tmp_path, "http://127.0.0.1:9", jobs=60, seconds=900, TRAINFARE_CLICKHOUSE_DATA_DIR=str(data)
    ) as made:
        lives = in_inserts = 0
        while in_inserts < KILLS:
            lives += 1
            assert lives < 4 * KILLS, "the kills came between the inserts"
            delay_ms = rng.uniform(0, AT_MOST_MS)
            killed = ("tests.storage_faults.killed", str(marks), str(rng.randrange(2, 20)), str(delay_ms))
            made.workers.module = killed
            worker = made.workers.start()
            made.publish(EVENTS)
            assert worker.process.wait(120) == -signal.SIGKILL, worker.text()[-3000:]
            worker.expected_end = True
            in_inserts += inside(marks)
        made.workers.module = ("streams.cli.main",)
        last = made.workers.start()
        made.publish()
        last.wait_ready(PATIENCE_S)
        while made.behind():
            time.sleep(1)
        time.sleep(25)  # what goes on is paid every ten seconds
        assert last.terminate() == 0
        made.assert_exact(Embedded(data_dir=data))
        print(f"{in_inserts} of {lives} kills of a worker came in an insert; {made.sent} events")  # noqa: T201 - what a long run is made for


@pytest.mark.kafka
def test_a_server_killed_in_inserts_under_a_live_worker(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with (
        StoreProcess(tmp_path / "store") as front,
        rig(tmp_path, front.url, jobs=60, seconds=600) as made,
    ):
        worker = made.workers.start()
        worker.wait_ready(PATIENCE_S)
        for _ in range(KILLS):
            front.fault("die", delay_s=rng.uniform(0, AT_MOST_MS) / 1000)
            made.publish(EVENTS)
            assert front.died(within_s=60), "no insert came"
            front.kill()
            time.sleep(rng.uniform(0, 2))
            front.start()
        made.publish()
        made.assert_exact(front.target())
        assert made.workers.ended_by_themselves() == []
        assert worker.terminate() == 0
        print(f"{KILLS} kills of the server in inserts; {made.sent} events")  # noqa: T201 - what a long run is made for
