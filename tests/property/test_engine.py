"""The engine against the oracle: the result is a function of the set of events, whatever the log does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.harness import meter
from tests.oracle.cases import T0, job, price
from tests.oracle.compute import compute
from tests.oracle.intake import attempt_of, body
from tests.oracle.model import Line
from tests.property.compare import assert_same
from tests.property.profile import PROFILE
from tests.strategies.logs import (
    Log,
    batch_cuts,
    clocks,
    fleets,
    logs,
    months_apart,
    orders,
    scrambled,
    shuffled,
    with_copies,
    with_impostors,
    with_stragglers,
)


def some_of(positions: Sequence[int]) -> st.SearchStrategy[list[int]]:
    """Some of the cuts."""
    return st.lists(st.sampled_from(positions), unique=True).map(sorted) if positions else st.just([])


def check(
    data: st.DataObject, lines: list[Line], as_of_ms: int | None, same_as: list[Line] | None = None
) -> None:
    """Meter the lines in some batches with some restarts; all must be as the oracle says of them (or of `same_as`)."""
    cuts = data.draw(batch_cuts(len(lines)), label="cuts")
    restarts = data.draw(some_of(cuts), label="restarts")
    open_at = data.draw(some_of(cuts), label="open_at")
    as_bytes = data.draw(st.booleans(), label="as_bytes")
    got = meter(lines, as_of_ms=as_of_ms, cuts=cuts, restarts=restarts, open_at=open_at, as_bytes=as_bytes)
    want = compute(lines if same_as is None else same_as, as_of_ms=as_of_ms)
    assert_same(got, want, counts=same_as is None)


@PROFILE
@given(logs(), st.data())
def test_any_order_within_the_horizons(log: Log, data: st.DataObject) -> None:
    check(data, data.draw(shuffled(log.lines)), log.as_of_ms, same_as=log.lines)


@PROFILE
@given(logs())
def test_one_batch_and_a_batch_per_line(log: Log) -> None:
    want = compute(log.lines, as_of_ms=log.as_of_ms)
    every = range(1, len(log.lines))
    assert_same(meter(log.lines, as_of_ms=log.as_of_ms), want)
    assert_same(meter(log.lines, as_of_ms=log.as_of_ms, cuts=every, open_at=every[::3]), want)


@PROFILE
@given(logs(), st.data())
def test_any_batch_cut_and_restart(log: Log, data: st.DataObject) -> None:
    check(data, log.lines, log.as_of_ms)


@PROFILE
@given(logs(), st.data())
def test_duplicates(log: Log, data: st.DataObject) -> None:
    lines = data.draw(with_copies(log.lines).flatmap(shuffled))
    check(data, lines, log.as_of_ms, same_as=log.lines)
    check(data, lines, log.as_of_ms)  # the books too


@PROFILE
@given(fleets().flatmap(with_impostors).flatmap(shuffled), clocks(), st.data())
def test_of_two_records_with_one_identity_the_first_counts(
    lines: list[Line], as_of_ms: int | None, data: st.DataObject
) -> None:
    check(data, lines, as_of_ms)


@PROFILE
@given(orders(lifecycle=False, traffic=False, nodes=False, most_samples=16), st.data())
def test_overlapping_exporters(lines: list[Line], data: st.DataObject) -> None:
    # A second exporter sees the same GPUs a little later, with other figures, and gives no ids.
    again = [
        replace(one, value=body(one) | {"source": "other", "id": None, "time_ms": body(one)["time_ms"] + 700})
        for one in lines
        if one.topic == "gpu"
    ]
    both = data.draw(shuffled([*lines, *again]))
    check(data, data.draw(shuffled(both)), None, same_as=both)


@PROFILE
@given(orders(), clocks(), st.data())
def test_late_prices(lines: list[Line], as_of_ms: int | None, data: st.DataObject) -> None:
    late = data.draw(shuffled([x for x in lines if x.topic != "prices"]))
    prices = data.draw(shuffled([x for x in lines if x.topic == "prices"]))
    check(data, [*late, *prices], as_of_ms)


@PROFILE
@given(orders(sampled=False, traffic=False, most_jobs=2), clocks(), st.data())
def test_fractions_of_a_gpu_and_nodes_held(
    lines: list[Line], as_of_ms: int | None, data: st.DataObject
) -> None:
    check(data, data.draw(shuffled(lines)), as_of_ms, same_as=lines)


@PROFILE
@given(orders(nodes=False), clocks(), st.data())
def test_attempts_out_of_order(lines: list[Line], as_of_ms: int | None, data: st.DataObject) -> None:
    mixed = data.draw(shuffled(lines))
    jobs = iter(sorted((x for x in mixed if x.topic == "jobs"), key=lambda x: -attempt_of(body(x))))
    check(data, [next(jobs) if x.topic == "jobs" else x for x in mixed], as_of_ms, same_as=lines)


@PROFILE
@given(orders(nodes=False, most_samples=10), clocks(), st.data())
def test_metered_then_lifecycle(lines: list[Line], as_of_ms: int | None, data: st.DataObject) -> None:
    mixed = data.draw(shuffled(lines))
    first = [x for x in mixed if x.topic != "jobs"]
    check(data, [*first, *(x for x in mixed if x.topic == "jobs")], as_of_ms, same_as=lines)


@PROFILE
@given(orders(lifecycle=True, sampled=False, nodes=False), clocks(), st.data())
def test_traffic_sent_twice(lines: list[Line], as_of_ms: int | None, data: st.DataObject) -> None:
    twice = [*lines, *(x for x in lines if x.topic in ("network", "storage"))]
    check(data, data.draw(shuffled(twice)), as_of_ms, same_as=lines)


@PROFILE
@given(orders(sampled=False, traffic=False, most_jobs=1), clocks(), st.data())
def test_nodes(lines: list[Line], as_of_ms: int | None, data: st.DataObject) -> None:
    check(data, data.draw(shuffled(lines)), as_of_ms, same_as=lines)


@PROFILE
@given(
    fleets(long_samples=True, most_samples=10).flatmap(with_stragglers).flatmap(scrambled),
    clocks(),
    st.data(),
)
def test_what_is_too_late_in_any_order_at_all(
    lines: list[Line], as_of_ms: int | None, data: st.DataObject
) -> None:
    check(data, lines, as_of_ms)


@PROFILE
@given(months_apart().flatmap(shuffled), st.data())
def test_news_of_jobs_that_ended_weeks_ago(lines: list[Line], data: st.DataObject) -> None:
    check(data, lines, None)


def test_a_row_stored_before_a_restart_is_zeroed_when_an_equal_instant_takes_its_time_away() -> None:
    # Found by the first property: 1 ms of running time is stored, then `suspended` comes, of the instant of `resumed`.
    lines = [
        price("s", "4.00", component="compute", per="job_hour", time_ms=T0 + 1),
        job("j", "resumed", T0),
        job("j", "suspended", T0),
    ]
    got = meter(lines, cuts=[2], restarts=[2], open_at=[2])
    assert_same(got, compute(lines))
    assert got.ledger == {}
