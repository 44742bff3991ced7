"""What must hold of the oracle itself, and proof that the strategies reach the cases that matter."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from tests.oracle.compute import compute, compute_job, price_book
from tests.oracle.intake import body
from tests.oracle.model import COMPONENTS, LARGEST_COST_NANO, Line, Tables
from tests.property.compare import assert_same, differences
from tests.property.corpus import some, timely
from tests.property.profile import PROFILE
from tests.strategies.logs import Log, batch_cuts, fleets, logs, scrambled, shuffled, time_of, with_copies

few = settings(PROFILE, max_examples=max(20, PROFILE.max_examples // 5))


@few
@given(logs(), st.data())
def test_no_order_within_the_horizons_changes_anything(log: Log, data: st.DataObject) -> None:
    want = compute(log.lines, as_of_ms=log.as_of_ms)
    assert want.dead == []
    assert_same(compute(data.draw(shuffled(log.lines)), as_of_ms=log.as_of_ms), want)


@few
@given(logs(), st.data())
def test_copies_are_only_counted(log: Log, data: st.DataObject) -> None:
    want = compute(log.lines, as_of_ms=log.as_of_ms)
    lines = data.draw(with_copies(log.lines).flatmap(shuffled))
    got = compute(lines, as_of_ms=log.as_of_ms)
    assert_same(got, want, counts=False)
    assert got.counts.applied + got.counts.unattributed + got.counts.duplicate == len(lines)


@few
@given(logs())
def test_jobs_are_independent_of_each_other(log: Log) -> None:
    want = compute(log.lines, as_of_ms=log.as_of_ms)
    book = price_book(log.lines)
    newest_ms = max((time_of(one) for one in log.lines), default=0)
    as_of_ms = newest_ms if log.as_of_ms is None else log.as_of_ms
    joined = Tables(nodes=want.nodes, node_hours=want.node_hours, unattributed=want.unattributed)
    for job_id in want.jobs:
        mine = [
            x for x in log.lines if x.topic not in ("prices", "nodes") and body(x).get("job_id") == job_id
        ]
        part = compute_job(mine, book=book, as_of_ms=as_of_ms)
        for name in ("ledger", "hours", "usage", "jobs", "attempts"):
            getattr(joined, name).update(getattr(part, name))
    assert_same(joined, want, counts=False)


@few
@given(logs())
def test_what_must_hold_of_any_result(log: Log) -> None:
    tables = compute(log.lines, as_of_ms=log.as_of_ms)
    wall_ms: dict[str, int] = {}
    for (job_id, _), attempt in tables.attempts.items():
        wall_ms[job_id] = wall_ms.get(job_id, 0) + attempt.wall_clock_ms
    assert wall_ms == {job_id: row.wall_clock_ms for job_id, row in tables.jobs.items()}
    _hours_are_sums(tables)
    for key, row in tables.ledger.items():
        assert row.quantity > 0
        assert 0 <= row.lost_quantity <= row.quantity
        assert 0 <= row.lost_cost_nano <= row.cost_nano
        assert key.sku or row.cost_nano == 0
        assert key.phase != "metered" or row.lost_quantity == 0
        if key.unit == "ms":
            assert row.quantity <= 60_000
    amounts = [(body(x)["bytes"], body(x)) for x in log.lines if x.topic == "network"]
    booked = sum(row.quantity for key, row in tables.ledger.items() if key.component == "network")
    assert booked == sum(amount for amount, _ in amounts)  # every byte is in exactly one row


def _hours_are_sums(tables: Tables) -> None:
    """Per attempt, hours have the costs, the lost costs, the GPU-time, the samples and the wall clock of all else.

    But for a cost of which an hour is capped: it is less than that of its minutes.
    """
    capped: dict[tuple[str, int], set[str]] = defaultdict(set)
    of_hours: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    of_rest: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for hour, sums in tables.hours.items():
        mine = of_hours[hour.job_id, hour.attempt]
        costs = {**dict(zip(COMPONENTS, sums.cost_nano, strict=True)), "lost": sums.lost_cost_nano}
        capped[hour.job_id, hour.attempt] |= {
            name for name, nano in costs.items() if nano == LARGEST_COST_NANO
        }
        mine.update(costs)
        mine.update(gpu_milli_ms=sums.gpu_milli_ms, lost_gpu=sums.lost_gpu_milli_ms)
        mine.update(sampled=sums.sampled_gpu_ms, productive=sums.productive_gpu_ms, tensor=sums.tensor_gpu_ms)
        if tables.attempts[hour.job_id, hour.attempt].wall_clock_ms:  # a metered attempt has sampled seconds
            mine.update(wall_clock_ms=sums.wall_clock_ms)
    for key, row in tables.ledger.items():
        mine = of_rest[key.job_id, key.attempt]
        mine.update({key.component: row.cost_nano}, lost=row.lost_cost_nano)
        if key.component == "gpu":
            mine.update(gpu_milli_ms=row.quantity, lost_gpu=row.lost_quantity)
    for (_, job_id, attempt), used in tables.usage.items():
        of_rest[job_id, attempt].update(
            sampled=1000 * used.sampled_gpu_s, productive=used.productive_gpu_ms, tensor=used.tensor_gpu_ms
        )
    for place, found in tables.attempts.items():
        of_rest[place].update(wall_clock_ms=found.wall_clock_ms)
    for place in of_hours.keys() | of_rest.keys():
        for name in capped[place]:
            assert of_hours[place].pop(name) <= of_rest[place].pop(name)
        assert +of_hours[place] == +of_rest[place], place


@few
@given(fleets().flatmap(scrambled))
def test_the_books_balance_in_any_order_at_all(lines: list[Line]) -> None:
    counts = compute(lines).counts
    assert sum(vars(counts).values()) == len(lines)


@given(st.integers(0, 50).flatmap(lambda n: st.tuples(st.just(n), batch_cuts(n))))
def test_cuts_lie_inside_the_log(case: tuple[int, list[int]]) -> None:
    count, cuts = case
    assert cuts == sorted(set(cuts))
    assert all(1 <= cut <= max(1, count - 1) for cut in cuts)


def _ledger(wanted: Callable[..., bool]) -> Callable[[Tables], bool]:
    return lambda tables: any(wanted(key, row) for key, row in tables.ledger.items())


REACHED: dict[str, Callable[[Tables], bool]] = {
    "superseded": lambda t: any(a.state == "superseded" for a in t.attempts.values()),
    "metered": _ledger(lambda k, r: k.phase == "metered" and r.cost_nano),
    "held suspended": _ledger(lambda k, r: k.phase == "suspended"),
    "starting of a retry lost": _ledger(
        lambda k, r: k.phase == "starting" and k.attempt > 1 and r.lost_quantity
    ),
    "lost in part": _ledger(lambda k, r: 0 < r.lost_quantity < r.quantity and k.phase == "running"),
    "lost traffic": _ledger(lambda k, r: k.component == "network" and 0 < r.lost_quantity < r.quantity),
    "unpriced gpu": _ledger(lambda k, r: k.component == "gpu" and not k.sku),
    "a price change inside a minute": _ledger(
        lambda k, r: k.component == "gpu" and k.price_effective_ms % 60_000
    ),
    "job hours": _ledger(lambda k, r: k.unit == "ms" and k.component == "labor"),
    "instance hours": _ledger(lambda k, r: k.unit == "instance_milli_ms"),
    "priced requests": _ledger(lambda k, r: k.unit == "requests" and k.sku),
    "priced MiB-ms": _ledger(lambda k, r: k.unit == "mib_ms" and k.sku),
    "licence on a metered attempt": _ledger(lambda k, r: k.component == "license" and k.phase == "metered"),
    "priced node": lambda t: any(row.cost_nano for row in t.nodes.values()),
    "attempts that overlap": lambda t: any(
        0 < a.wall_clock_ms < 60_000 and n > 1 for (_, n), a in t.attempts.items()
    ),
    "samples beside lifecycle": lambda t: any(
        t.attempts[job_id, attempt].state == "running" for _, job_id, attempt in t.usage
    ),
}


def test_the_strategies_reach_what_matters() -> None:
    missing = set(REACHED)
    for part in range(60):  # what is rare comes in clumps, and not in every part
        for _, tables in some(timely, part):
            missing -= {name for name in missing if REACHED[name](tables)}
        if not missing:
            return
    pytest.fail(f"never seen: {sorted(missing)}")


def test_late_samples_are_reached_by_orders_beyond_the_horizons() -> None:
    find(
        fleets(lifecycle=False, traffic=False).flatmap(scrambled),
        lambda lines: compute(lines).counts.too_late > 0,
        settings=settings(max_examples=2000, phases=[Phase.generate], deadline=None, database=None),
        random=random.Random(1),
    )


def test_a_difference_is_seen() -> None:
    lines = [
        Line(
            "network",
            {"job_id": "j", "time_ms": 10**12, "interval_ms": 0, "bytes": 1, "source": "s", "id": "1"},
        )
    ]
    more = [*lines, Line("network", dict(body(lines[0])) | {"id": "2"})]
    found = differences(compute(more), compute(lines))
    assert [text.split()[0] for text in found] == ["ledger", "counts:"]
