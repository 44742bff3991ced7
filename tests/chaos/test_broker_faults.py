"""The broker dies, is restarted or stays away while workers run: they wait, say so, and the tables are exact."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from streams.web.health import PUBLIC_REASONS
from tests.chaos.plan import Plan
from tests.chaos.run import Chaos
from tests.chaos.test_chaos import assert_exact
from tests.chaos.workers import Worker, Workers
from tests.kafka.broker import KafkaBroker, why_not
from tests.store_process import StoreProcess

pytestmark = pytest.mark.kafka

MOST_LINES_A_MINUTE = 100
PAGE = '"url": "'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """One of our own: others are in the middle of something on the shared one."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    own = KafkaBroker(tmp_path)
    own.start()
    try:
        yield own
    finally:
        own.kill()


class BrokerChaos(Chaos):
    """Cycles are (`kill` | `stop`) and how long the broker stays away, as in `kill 5`."""

    def disturb(self, kind: str, workers: Workers, front: StoreProcess) -> None:
        self.report.cycles.append(kind)
        how, _, away_s = kind.partition(" ")
        self.lines_before = {worker.name: worker.count("\n") for worker in workers.alive}
        self.said: list[tuple[int, str]] = []
        if how == "kill":
            self.broker.kill()
        else:
            self.broker.stop()
        end_s = time.monotonic() + float(away_s)
        while time.monotonic() < end_s:
            time.sleep(2)
            self.said.append(asked(workers.lives[0], "/readyz"))
        self.lines_said = max(worker.count("\n") - self.lines_before[worker.name] for worker in workers.alive)
        self.broker.start()


def asked(worker: Worker, path: str) -> tuple[int, str]:
    """Status and body of a page of the worker's."""
    url = worker.text().partition(PAGE)[2].partition('"')[0]
    try:
        with urlopen(f"{url}{path}", timeout=5) as answer:
            return int(answer.status), answer.read().decode()
    except HTTPError as refused:
        return refused.code, refused.read().decode()


@pytest.mark.long
def test_a_broker_that_is_killed_and_comes_back_costs_nothing(tmp_path: Path, broker: KafkaBroker) -> None:
    plan = Plan(jobs=16, seconds=500, cycles=1, per_s=1_200, partitions=3, kinds=("kill 4",))
    chaos = BrokerChaos(plan, tmp_path, print, broker)
    assert_exact(chaos.go())
    assert len(chaos.said) >= 2


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_broker_that_is_restarted_or_away_for_a_minute(
    how: str, tmp_path: Path, broker: KafkaBroker
) -> None:
    plan = Plan(
        jobs=30,
        seconds=900,
        cycles=1,
        per_s=900,
        kinds=(f"{how} 60",),
        session_timeout_ms=10_000,
        patience_s=180,
    )
    chaos = BrokerChaos(plan, tmp_path, print, broker)
    report = chaos.go()
    print(report, chaos.lines_said, *dict.fromkeys(chaos.said), sep="\n")  # noqa: T201 - the figures of the run
    assert_exact(report)
    assert chaos.said[-1][0] == 503
    assert PUBLIC_REASONS["kafka"] in chaos.said[-1][1]
    assert chaos.lines_said < MOST_LINES_A_MINUTE
