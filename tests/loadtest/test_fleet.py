"""The fleet: its bytes are batches that clients read, its messages are the contract's, its totals are the oracle's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from aiokafka.record.memory_records import MemoryRecords

from loadtest.fleet import SHAPES as FLEETS
from loadtest.fleet import Fleet, Shape, workload
from loadtest.known import Known, cost_nano, minutes_of
from loadtest.record_batches import Record, Template, varint
from schemas.decode import decode
from schemas.events import GpuEvent
from streams.keys import key_of
from streams.topics import Topic
from streams.transport.partitions import partition_of
from tests.oracle.compute import Tables, compute
from tests.oracle.model import Line
from tests.oracle.model import cost_nano as oracle_cost_nano

BEGIN_S = 1_772_366_450  # ten seconds before a minute ends
SHAPES = [
    Shape(jobs=5, senders_per_job=10, gpus=1, seconds=75, slices=4),
    Shape(jobs=4, senders_per_job=3, gpus=8, seconds=70),
]


class Sent:
    """All messages of a fleet, as a client reads them."""

    def __init__(self, fleet: Fleet, partitions: int) -> None:
        self.values: list[bytes] = []
        for request in fleet.batches():
            assert len({batch.partition for batch in request}) == len(request)
            for batch in request:
                for each in self._records(bytes(batch.data)):
                    assert partition_of(each.key, partitions) == batch.partition
                    assert each.key == key_of(Topic.GPU, each.value)
                    assert each.timestamp == orjson.loads(each.value)["time_ms"]
                    self.values.append(each.value)

    def _records(self, data: bytes) -> list[Any]:
        found = MemoryRecords(data)
        batch = found.next_batch()
        assert batch.validate_crc()
        records = list(batch)
        assert not found.has_next()
        assert batch.next_offset == len(records)
        return records


def tables(fleet: Fleet, values: list[bytes], *, lifecycle: bool) -> Tables:
    lines = [Line("prices", orjson.loads(each)) for each in fleet.prices()]
    if lifecycle:
        lines += [Line("jobs", orjson.loads(each)) for each in (*fleet.started(), *fleet.completed())]
    lines += [Line("gpu", orjson.loads(each)) for each in values]
    return compute(lines)


@pytest.mark.parametrize("lifecycle", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_known_totals_are_the_oracles(shape: Shape, lifecycle: bool) -> None:
    fleet = Fleet(shape, BEGIN_S, partitions=4)
    found = tables(fleet, Sent(fleet, 4).values, lifecycle=lifecycle)
    known = fleet.known
    assert found.counts.dead_lettered == found.counts.too_late == 0
    for at, job in enumerate(known.jobs):
        usage = [row for (_, name, _), row in found.usage.items() if name == job]
        ledger = [row for key, row in found.ledger.items() if key.job_id == job]
        assert known.sampled_gpu_s[at] == sum(row.sampled_gpu_s for row in usage) > 0
        assert known.productive_gpu_ms[at] == sum(row.productive_gpu_ms for row in usage) > 0
        assert known.ledger_rows[at] == len(ledger)
        assert known.quantity[at] == sum(row.quantity for row in ledger)
        assert known.cost_nano[at] == sum(row.cost_nano for row in ledger) > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_are_those_of_the_messages(shape: Shape) -> None:
    fleet = Fleet(shape, BEGIN_S, partitions=4)
    permille: Counter[tuple[str, int]] = Counter()
    samples: Counter[tuple[str, int]] = Counter()
    values = Sent(fleet, 4).values
    for value in values:
        body = orjson.loads(value)
        at = body["job_id"], (body["time_ms"] // 1000 - BEGIN_S) // 10
        permille[at] += sum(round(ratio * 1000) for ratio in body["util_ratio"])
        samples[at] += len(body["util_ratio"])
    known = fleet.known
    assert known.permille.shape == (shape.jobs, -(-shape.seconds // 10))
    for job, name in enumerate(known.jobs):
        for window in range(known.permille.shape[1]):
            assert known.permille[job, window] == permille[name, window]
            assert known.samples[job, window] == samples[name, window]
    assert known.messages == len(values) == shape.messages
    assert known.gpu_samples == shape.messages * shape.gpus


def test_every_message_is_one_the_meter_takes_and_none_is_another() -> None:
    values = Sent(Fleet(SHAPES[1], BEGIN_S, partitions=4), 4).values
    seen = set()
    for value in values:
        event = decode("gpu", value, (), 2 * BEGIN_S * 1000)
        assert isinstance(event, GpuEvent), event
        seen.add((event.node, event.time_ms))
    assert len(seen) == len(values)


def test_the_same_seed_gives_the_same_bytes() -> None:
    def sent(seed: int) -> list[bytes]:
        return Sent(Fleet(SHAPES[0], BEGIN_S, 4, seed), 4).values

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)


def test_the_named_workloads_are_as_large_as_they_are_called() -> None:
    assert (FLEETS["w1"].messages, FLEETS["w1"].gpus) == (10**6, 1)
    assert (FLEETS["w2"].messages, FLEETS["w2"].gpus, FLEETS["w2"].jobs) == (300_000, 8, 1_000)
    assert FLEETS["w2-long"].messages == 75_000_000
    assert workload("quick", BEGIN_S, 8, seconds=2).shape.messages == 2_000


def test_totals_are_kept_in_a_file(tmp_path: Path) -> None:
    fleet = Fleet(SHAPES[1], BEGIN_S, partitions=4)
    Sent(fleet, 4)
    fleet.known.save(tmp_path / "totals.npz")
    again = Known.load(tmp_path / "totals.npz")
    for name, value in vars(fleet.known).items():
        assert np.array_equal(getattr(again, name), value), name


def test_costs_round_half_to_even_and_refuse_what_does_not_fit() -> None:
    divisor = 3_600_000_000
    quantities = [0, 1, divisor // 2, 3 * divisor // 2, divisor // 2 + 1, 480_000_000]
    for price in (1, 3, 1_234_567_891):
        found = cost_nano(np.array(quantities), np.array([price]))
        assert found.tolist() == [oracle_cost_nano(quantity, price, divisor) for quantity in quantities]
    with pytest.raises(OverflowError, match="63 bits"):
        cost_nano(np.array([2**40]), np.array([2**23]))


def test_seconds_fall_into_minutes() -> None:
    assert minutes_of(50, 130).tolist() == [10, 60, 10]
    assert minutes_of(60, 120).tolist() == [60]


def test_a_value_without_its_marks_is_no_template() -> None:
    with pytest.raises(ValueError, match="mark of seconds"):
        Template([Record(b"k", b'{"time_ms":1}', 0)])


@pytest.mark.parametrize(
    ("number", "bytes_"), [(0, b"\x00"), (-1, b"\x01"), (63, b"\x7e"), (64, b"\x80\x01")]
)
def test_varints(number: int, bytes_: bytes) -> None:
    assert varint(number) == bytes_
