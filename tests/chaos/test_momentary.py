"""The broker gives answers that are true for a moment only: shards keep their owners, and metering goes on.

`[]` for every member, for good, is what Faust's assignor makes of a topic that is missing for a moment: the negative run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.transport.momentary import OUT_OF_RANGE_FOR_S
from tests.chaos.plan import Plan, Report
from tests.chaos.run import Chaos
from tests.chaos.test_chaos import assert_exact
from tests.chaos.workers import COMMAND, Workers
from tests.kafka.broker import KafkaBroker, why_not
from tests.kafka.proxy import KINDS
from tests.store_process import StoreProcess

pytestmark = pytest.mark.kafka

#: Those from which shards are assigned.
OF_METADATA = ("all topics unknown", "a topic unknown", "fewer partitions", "topics without leader")
LEFT_OUT = "the group's leader gave shards to nobody"
FOR_S = 5.0
#: So long that the group certainly rebalances meanwhile: a worker that is killed is removed after its session.
PATCHED_FOR_S = 8.0


class MomentaryChaos(Chaos):
    """Cycles are kinds of answers, given while a worker is removed and another starts; `broker KIND` kills the broker before."""

    def disturb(self, kind: str, workers: Workers, front: StoreProcess) -> None:
        self.report.cycles.append(kind)
        given = kind.removeprefix("broker ")
        if given != kind:
            self.broker.kill()
            time.sleep(1)
            self.broker.start()
        for_s = FOR_S if self.plan.module == COMMAND else PATCHED_FOR_S
        self.proxy.give(given, OUT_OF_RANGE_FOR_S - 1 if "out of range" in given else for_s)
        self.proxy.hang_up()
        workers.alive[-1].kill()
        workers.start()
        time.sleep(for_s)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """One of our own, as it is killed."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    own = KafkaBroker(tmp_path)
    own.start()
    try:
        yield own
    finally:
        own.kill()


def misled(directory: Path, plan: Plan, broker: KafkaBroker | None = None) -> Report:
    report = MomentaryChaos(plan, directory, print, broker).go()
    print(report)  # noqa: T201 - the figures of the run
    return report


@pytest.mark.timeout(400)
def test_topics_that_are_missing_for_a_moment_cost_nobody_a_shard(tmp_path: Path) -> None:
    plan = Plan(jobs=10, seconds=300, cycles=2, per_s=2_000, partitions=3, kinds=OF_METADATA[:2])
    report = misled(tmp_path, plan)
    assert_exact(report)
    assert set(report.momentary) >= set(OF_METADATA[:2])


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_every_kind_of_momentary_answer_in_turn(tmp_path: Path, broker: KafkaBroker) -> None:
    kinds = (*KINDS, *(f"broker {kind}" for kind in OF_METADATA))
    plan = Plan(
        jobs=60,
        seconds=1_500,
        cycles=len(kinds),
        per_s=700,
        kinds=kinds,
        rest_s=(0.5, 2.0),
        session_timeout_ms=6_000,
    )
    report = misled(tmp_path, plan, broker)
    assert_exact(report)
    assert set(report.momentary) >= set(KINDS)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_with_fausts_assignor_alone_shards_are_left_without_an_owner(tmp_path: Path) -> None:
    """The look at the end of every run sees it; nothing else need differ.

    Whether the group rebalances before the leader learns of the topics again is up to the machine: one of three must.
    """
    plan = Plan(
        jobs=10,
        seconds=300,
        cycles=1,
        per_s=2_000,
        partitions=3,
        kinds=OF_METADATA[:1],
        patience_s=1,
        module=("tests.chaos.patched", "stock_assignor"),
    )
    for attempt in ("first", "second", "third"):
        (tmp_path / attempt).mkdir()
        report = misled(tmp_path / attempt, plan)
        if report.owned_after_s is None:
            with pytest.raises(AssertionError):
                assert_exact(report)
            return
    pytest.fail("not found out")


@pytest.mark.long
@pytest.mark.timeout(400)
def test_members_that_the_leader_leaves_out_ask_again_until_all_is_owned(tmp_path: Path) -> None:
    """The leader assigns as before; that somebody sees it and asks again is enough.

    Whether the group rebalances before the leader learns of the topics again is up to the machine: one of three must.
    """
    plan = Plan(
        jobs=10,
        seconds=300,
        cycles=1,
        per_s=2_000,
        partitions=3,
        kinds=OF_METADATA[:1],
        module=("tests.chaos.patched", "stock_leader"),
    )
    for attempt in ("first", "second", "third"):
        directory = tmp_path / attempt
        directory.mkdir()
        report = MomentaryChaos(plan, directory, print).go()
        print(report)  # noqa: T201 - the figures of the run
        assert_exact(report)
        if any(LEFT_OUT in log.read_text() for log in directory.glob("w*.log")):
            return
    pytest.fail("nobody was left out")
