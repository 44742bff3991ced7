"""A canary's run costs what it is said to cost, on whatever second it falls, as the oracle and the engine see it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from schemas.canary_proof import CanaryProof
from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.invalid import Invalid
from schemas.reserved import CANARY, CANARY_JOB_PREFIX
from streams.engine.pricing.book import PriceBook
from streams.keys import key_of
from streams.selfcheck.canary.plan import (
    EXPECTED_NANO,
    NETWORK_BYTES,
    RUN_MS,
    SAMPLED_GPU_S,
    CanaryOptions,
    CanaryPrice,
    Event,
    events_of,
    price_at,
    run_at,
)
from streams.topics import Topic
from streams.transport.partitions import partition_of
from tests.oracle.cases import ledger, quantity, total_nano
from tests.oracle.compute import compute
from tests.oracle.model import Line, Tables

AT_MS = 1_800_000_000_000 - 60_000
OPTIONS = CanaryOptions(partitions=8)
PROOF = CanaryProof(b"k" * 32)


def value(event: Event) -> bytes:
    return json.dumps(event[2]).encode()


def tables(at_ms: int, **price: str) -> Tables:
    run = run_at(at_ms, OPTIONS)
    events = [price_at(AT_MS - 60_000), *events_of(run)]
    if price:
        events[0][2].update(price)  # type: ignore[attr-defined]  # a dict, as they are made
    return compute([Line(str(topic), value((topic, key, event))) for topic, key, event in events])


@pytest.mark.parametrize("second", range(60))
def test_a_run_costs_a_thousand_nano_dollars_whatever_minutes_it_lies_in(second: int) -> None:
    run = run_at(AT_MS + second * 1_000 + 123, OPTIONS)
    found = tables(run.at_ms)
    assert not found.dead
    assert total_nano(found, run.job_id) == total_nano(found, run.job_id, component="gpu") == EXPECTED_NANO
    assert {key.sku for key in ledger(found, run.job_id, component="gpu")} == {CANARY}
    assert quantity(found, run.job_id, component="network") == NETWORK_BYTES
    assert sum(row.sampled_gpu_s for row in found.usage.values()) == SAMPLED_GPU_S
    job = found.jobs[run.job_id]
    assert (job.state, job.wall_clock_ms) == ("completed", RUN_MS)


@pytest.mark.parametrize("second", range(60))
def test_a_price_that_is_off_by_two_thousandths_shows(second: int) -> None:
    """However the rows are rounded."""
    run = run_at(AT_MS + second * 1_000, OPTIONS)
    assert total_nano(tables(run.at_ms, usd="0.00036072"), run.job_id) == EXPECTED_NANO + 2


def test_whoever_dies_while_sending_leaves_nothing_that_is_paid_on() -> None:
    run = run_at(AT_MS, OPTIONS)
    events = list(events_of(run))
    for sent in range(1, len(events) + 1):
        lines = [Line(str(topic), value((topic, key, event))) for topic, key, event in events[:sent]]
        found = compute(lines, as_of_ms=AT_MS + 86_400_000)
        assert found.jobs[run.job_id].state == "completed"
        assert found.jobs[run.job_id].wall_clock_ms <= RUN_MS


@pytest.mark.parametrize("partitions", [1, 2, 8, 64])
def test_each_shard_has_its_turn_by_the_partitioner_of_the_log(partitions: int) -> None:
    options = CanaryOptions(partitions)
    for number in range(2 * partitions):
        run = run_at(number * options.interval_ms, options)
        assert run.shard == number % partitions
        assert run.job_id.startswith(CANARY_JOB_PREFIX)
        for topic, key, event in events_of(run):
            assert partition_of(key, partitions) == run.shard
            assert key_of(topic, value((topic, key, event))) == key


def test_equal_instants_make_equal_events() -> None:
    """So that two workers that both believe to own the canary count once."""
    assert list(events_of(run_at(AT_MS, OPTIONS))) == list(events_of(run_at(AT_MS, OPTIONS)))
    names = [event.get("id") for _, _, event in events_of(run_at(AT_MS, OPTIONS))]
    assert len(set(names)) == len(names)


def test_all_events_are_valid() -> None:
    for topic, key, event in [price_at(AT_MS), *events_of(run_at(AT_MS, OPTIONS))]:
        signed = PROOF.signed(topic, event)
        assert not isinstance(decode(topic, signed, [], AT_MS + 300_000, PROOF), Invalid), event
        assert key_of(topic, signed) == key


def priced(record: Mapping[str, object]) -> PriceBook:
    event = decode(Topic.PRICES, PROOF.signed(Topic.PRICES, record), [], AT_MS + 300_000, PROOF)
    assert isinstance(event, PriceEvent)
    return PriceBook.empty().with_events([event])


def test_the_price_is_published_once_and_again_only_while_it_is_not_known() -> None:
    book = PriceBook.empty()
    price = CanaryPrice(lambda: book)
    assert price.from_ms() is None
    assert price.is_due(AT_MS, 60_000)
    first = price.record(AT_MS)
    assert not price.is_due(AT_MS + 59_999, 60_000)
    assert price.is_due(AT_MS + 60_000, 60_000)
    assert price.record(AT_MS + 60_000) == first, "the same revision, however often it is asked for"
    book = priced(first[2])
    assert not price.is_due(AT_MS + 600_000, 60_000)
    from_ms = price.from_ms()
    assert from_ms is not None
    assert from_ms <= run_at(AT_MS, OPTIONS).begin_ms, "the next run is priced"


def test_a_price_of_the_user_s_own_for_anything_does_not_win() -> None:
    own = dict(price_at(AT_MS)[2]) | {"sku": "a", "cloud": None, "usd": "9", "effective_ms": 0, "id": "x"}
    run = run_at(AT_MS, OPTIONS)
    lines = [
        Line(str(topic), value((topic, key, event)))
        for topic, key, event in [price_at(AT_MS), (Topic.PRICES, b"a@0", own), *events_of(run)]
    ]
    assert total_nano(compute(lines), run.job_id) == EXPECTED_NANO
