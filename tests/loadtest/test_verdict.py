"""The totals of a real store: those of a fleet that a shard has metered are right, and one nano-dollar off is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from aiokafka.record.memory_records import MemoryRecords

from loadtest.fleet import Fleet, Shape
from loadtest.known import Known
from loadtest.verdict import WrongTotalsError, check
from schemas.decode import decode
from schemas.events import PriceEvent
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from tests.new_store import begun

BEGIN_S = 1_772_366_450
PARTITION = 0


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Embedded, Known]:
    """A store with all rows of a small fleet."""
    fleet = Fleet(Shape(jobs=3, senders_per_job=2, gpus=8, seconds=65), BEGIN_S, partitions=1)
    prices = [decode("prices", value, (), 2 * BEGIN_S * 1000) for value in fleet.prices()]
    shard = Shard(
        0, ShardSettings(), PriceBook.empty().with_events(p for p in prices if isinstance(p, PriceEvent))
    )
    at = 0
    for request in fleet.batches():
        for batch in request:
            found = list(MemoryRecords(bytes(batch.data)).next_batch())
            records = [LogRecord(at + n, 2 * BEGIN_S * 1000, each.value) for n, each in enumerate(found)]
            assert shard.fold(LogBatch("gpu", PARTITION, at, at + len(records), records)) is None
            at += len(records)
    target = Embedded(data_dir=begun(tmp_path_factory.mktemp("store")))
    store, more = ClickHouseStore(target), True
    try:
        while more:
            point = shard.checkpoint((BEGIN_S + 100) * 1000, shard.snapshots.version + 1, open_attempts=True)
            for name, rows in point.tables.items():
                store.insert(name, rows, f"{name}{point.version}")
            more = point.more
    finally:
        store.close()
    return target, fleet.known


def test_what_a_shard_metered_is_what_was_sent(metered: tuple[Embedded, Known]) -> None:
    check(*metered)


def more_cost(known: Known) -> None:
    known.cost_nano = known.cost_nano + np.array([0, 0, 1])


def a_second_less(known: Known) -> None:
    known.sampled_gpu_s = known.sampled_gpu_s - np.array([1, 0, 0])


def a_job_too_few(known: Known) -> None:
    known.jobs = known.jobs[:2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (more_cost, "job train-000002: cost_nano is"),
        (a_second_less, "job train-000000: sampled_gpu_s is 1040, want 1039"),
        (a_job_too_few, "job train-000002 was never sent"),
    ],
)
def test_a_total_that_differs_is_a_failure(
    metered: tuple[Embedded, Known], change: Callable[[Known], None], said: str
) -> None:
    target, known = metered
    other = Known(**vars(known))
    change(other)
    with pytest.raises(WrongTotalsError, match=said):
        check(target, other)


def test_a_store_without_rows_is_a_failure(metered: tuple[Embedded, Known], tmp_path: Path) -> None:
    with pytest.raises(WrongTotalsError, match="15 totals"):
        check(Embedded(data_dir=tmp_path), metered[1])
