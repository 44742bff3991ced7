"""Hand-worked cases of the oracle's samples, amounts, nodes and intake.

Every figure is worked out in the comment beside it.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.oracle.cases import M0, T0, gpu, job, ledger, network, node, price, quantity, storage, total_nano
from tests.oracle.compute import compute, compute_job, price_book
from tests.oracle.model import HOUR_MS, Line

S = 1000
M = 60 * S
PRICE = price("p", "3.6")


def test_whole_seconds_and_the_largest_permille() -> None:
    tables = compute(
        [
            gpu("j", T0 + 3500, 3000, {"0": 0.5, "1": 1.0}),  # seconds floor(0.5) = 0 to 2 of two GPUs
            gpu("j", T0 + 4000, 2000, {"0": 0.25}, source="other"),  # seconds 2, 3 of GPU 0
            gpu("j", T0 + 4000, 1000, {"0": 0.9}, node="n2"),  # another node: another GPU
            gpu("j", T0 + 5900, 800, {"0": 1.0}),  # floor(5.1) = floor(5.9): no whole second
        ]
    )
    # GPU 0: 500 + 500 + 500 + 250; GPU 1: 3 x 1000; n2: 900. Seconds: 4 + 3 + 1.
    assert tables.usage == {(M0, "j", 1): (8, 1750 + 3000 + 900, 0, 0)}


def test_a_permille_is_the_double_product_rounded_half_to_even() -> None:
    # 0.0005 x 1000.0 = 0.5 -> 0; 0.0015 x 1000.0 = 1.5 -> 2; 0.0025 x 1000.0 = 2.5 -> 2
    lines = [gpu("j", T0 + S, S, {"0": 0.0005, "1": 0.0015, "2": 0.0025})]
    assert compute(lines).usage[M0, "j", 1][:2] == (3, 0 + 2 + 2)


def test_the_same_gpu_twice_in_a_record_counts_its_largest() -> None:
    line = gpu("j", T0 + S, S, {}, gpus=["0", "0"], util_ratio=[0.9, 0.1])
    assert compute([line]).usage[M0, "j", 1][:2] == (1, 900)


def test_a_scalar_is_an_array_of_one() -> None:
    line = Line("gpu", {"job_id": "j", "node": "n", "time_ms": T0 + S, "interval_ms": S, "source": "s", "gpu": "0",
                        "util_ratio": 1})  # fmt: skip
    assert compute([line]).usage[M0, "j", 1][:2] == (1, 1000)


def test_a_metered_attempt_pays_for_sampled_seconds_by_the_newest_fields_of_each_minute() -> None:
    tables = compute(
        [
            price("h", "3.6", gpu_type="H100"),
            price("a", "7.2", gpu_type="A100"),
            price("l", "3.6", component="license"),
            price("slot", "1", component="overhead", per="job_hour"),
            gpu("j", T0 + 65 * S, 10 * S, {"0": 0.1}, gpu_type="H100"),  # 55 to 65
            gpu("j", T0 + 62 * S, 1 * S, {"7": 0.1}, gpu_type="A100", node="n2"),  # older: prices nothing
            gpu("j", T0 + 64 * S, 4 * S, {"0": 0.5}),  # covered already
        ]
    )
    assert {(k.minute - M0, k.node, k.sku): r.quantity for k, r in ledger(tables, "j").items()} == {
        (0, "n1", "h"): 5_000_000,
        (1, "n1", "h"): 5_000_000,
        (1, "n2", "h"): 1_000_000,
        (0, "n1", "l"): 5_000_000,
        (1, "n1", "l"): 5_000_000,
        (1, "n2", "l"): 1_000_000,
    }
    assert {k.phase for k in tables.ledger} == {"metered"}
    assert tables.jobs["j"].state == "metered"
    assert tables.jobs["j"].wall_clock_ms == 0


def test_a_price_may_change_inside_a_sampled_second() -> None:
    tables = compute(
        [PRICE, price("p", "7.2", effective_ms=T0 + 1250), gpu("j", T0 + 2 * S, 2 * S, {"0": 1})]
    )
    rows = {k.price_effective_ms - T0: r[:2] for k, r in tables.ledger.items()}
    assert rows == {-T0: (1_250_000, 1_250_000), 1250: (750_000, 1_500_000)}


def test_lifecycle_events_take_over_from_the_meter() -> None:
    samples = [PRICE, gpu("j", T0 + 30 * S, 10 * S, {"0": 1, "1": 1})]
    assert quantity(compute(samples), "j", phase="metered") == 20_000_000
    both = compute([*samples, job("j", "started", T0, gpu_count=1), job("j", "completed", T0 + 40 * S)])
    assert {k.phase: r.quantity for k, r in both.ledger.items()} == {"running": 40_000_000}
    assert both.usage[M0, "j", 1][:2] == (20, 20_000)  # productivity stays
    # Even a start after the end makes an attempt that is not metered, and pays nothing.
    ended = compute([*samples, job("j", "completed", T0, gpu_count=1), job("j", "started", T0 + S)])
    assert ended.ledger == {}


def test_a_late_sample_is_late_per_gpu_and_in_log_order() -> None:
    first = gpu("j", T0 + 700 * S, 1 * S, {"0": 1})  # newest second of GPU 0: 699
    late = gpu("j", T0 + 110 * S, 12 * S, {"0": 1, "1": 1})  # begins at 98 < 699 - 600
    edge = gpu("j", T0 + 110 * S, 11 * S, {"0": 0.5})  # begins at 99: not late
    tables = compute([first, late, edge])
    assert sum(row.sampled_gpu_s for row in tables.usage.values()) == 1 + 12 + 11
    alone = compute([first, gpu("j", T0 + 110 * S, 12 * S, {"0": 1}), edge])
    assert alone.dead == [(1, "too_late")]
    assert (alone.counts.applied, alone.counts.too_late, alone.counts.dead_lettered) == (2, 1, 0)
    assert compute([late, first]).dead == []  # "earlier in the log"


def test_idle_samples_are_counted_apart_and_change_nothing() -> None:
    idle = gpu("", T0 + S, S, {"0": 1})
    tables = compute([idle, gpu("j", T0 + S, S, {"0": 0}), idle])
    assert (tables.counts.applied, tables.counts.unattributed) == (1, 2)
    assert list(tables.jobs) == ["j"]


def test_an_amount_is_spread_by_the_floor_rule() -> None:
    # 10 bytes over 3 s from 58.5 s to 61.5 s: before 60 s floor(10 x 1500 / 3000) = 5, then 5.
    # 7 bytes over the same: floor(7 x 1500 / 3000) = 3, then 4.
    for amount, first in ((10, 5), (7, 3)):
        tables = compute([network("j", T0 + 61_500, 3000, bytes=amount)])
        assert [r.quantity for _, r in sorted(tables.ledger.items())] == [first, amount - first]
        assert {(k.component, k.sku, k.phase, k.node) for k in tables.ledger} == {("network", "", "", "")}


def test_an_interval_of_zero_books_all_at_its_instant() -> None:
    tables = compute([network("j", T0 + 2 * M, 0, bytes=9), storage("j", T0, 0, "stored", bytes=2**30)])
    assert {(k.minute - M0, k.unit): r.quantity for k, r in tables.ledger.items()} == {(2, "bytes"): 9}


def test_traffic_is_matched_by_its_own_fields_and_the_job_s_team() -> None:
    tables = compute(
        [
            price("in", "9", component="network", per="gb", region="eu"),
            price("net", "0.09", component="network", per="gb", path="internet", team="red"),
            price("un", "0.01", component="network", per="gib", path="unclassified"),
            job("j", "started", T0, region="eu", team="red"),
            network("j", T0 + S, S, bytes=10**9, path="internet"),
            network("j", T0 + S, S, bytes=2**30),
        ],
        as_of_ms=T0,
    )
    # The job's region is not the event's. 1 GB x 0.09 $; 1 GiB x 0.01 $.
    assert {k.sku: r.cost_nano for k, r in tables.ledger.items()} == {"net": 90_000_000, "un": 10_000_000}


def test_each_way_that_traffic_of_one_price_goes_has_a_row_rounded_on_its_own() -> None:
    at = {"path": "cross_region", "direction": "egress", "region": "us"}
    tables = compute(
        [
            price("net", "0.5", component="network", per="gb"),
            price("st", "0.5", component="storage", per="thousand_requests"),
            *(network("j", T0 + S, S, bytes=1, dst_region=to, **at) for to in ("eu", "ap", "ap")),
            network("j", T0 + S, S, bytes=1),
            storage("j", T0 + S, S, "list", requests=7, storage_class="cold", region="us"),
            storage("j", T0 + S, S, "list", requests=9, region="us"),
        ]
    )
    # 0.5 nano-dollars a byte, half to even: 1 byte is 0, 2 bytes are 1.
    assert {k[9:]: r[:2] for k, r in tables.ledger.items()} == {
        ("cross_region", "egress", "us", "eu", "", ""): (1, 0),
        ("cross_region", "egress", "us", "ap", "", ""): (2, 1),
        ("unclassified", "", "", "", "", ""): (1, 0),
        ("", "", "us", "", "list", "cold"): (7, 3_500_000),
        ("", "", "us", "", "list", ""): (9, 4_500_000),
    }


def test_storage_books_bytes_and_requests_each_by_its_own_sku() -> None:
    month_ms = 730 * HOUR_MS
    tables = compute(
        [
            price("req", "0.0004", component="storage", per="thousand_requests", op="read"),
            price("ret", "0.01", component="storage", per="gib"),
            price("keep", "0.023", component="storage", per="gib_month", storage_class="standard"),
            storage("j", T0 + M, M, "read", bytes=2**31, requests=5000),
            storage("k", T0 + M, M, "list", requests=3),
            storage("l", T0 + 10 * S, 10 * S, "stored", bytes=2**30 + 2**19, storage_class="standard"),
        ]
    )
    assert {k.sku: r[:2] for k, r in ledger(tables, "j").items()} == {
        "req": (5000, 2_000_000),  # 5 x 0.0004 $
        "ret": (2**31, 20_000_000),  # 2 GiB x 0.01 $
    }
    assert {k.sku: r[:2] for k, r in ledger(tables, "k").items()} == {"": (3, 0)}  # no price for a list
    # 1024 whole MiB x 10,000 ms of a GiB-month of 2,628,000,000 ms: 0.023 x 10,000 / 2,628,000,000 $ = 87.5 nano
    assert month_ms == 2_628_000_000
    assert {k.sku: r[:2] for k, r in ledger(tables, "l").items()} == {"keep": (10_240_000, 88)}


def test_traffic_is_cut_where_a_price_changes() -> None:
    tables = compute(
        [
            price("n", "1", component="network", per="gb"),
            price("n", "2", component="network", per="gb", effective_ms=T0 + 333),
            network("j", T0 + S, S, bytes=10),
        ]
    )
    # Before 333 ms: floor(10 x 333 / 1000) = 3 bytes, 3 nano; then 7 bytes, 14 nano.
    assert sorted(r[:2] for r in tables.ledger.values()) == [(3, 3), (7, 14)]


def test_a_node_is_paid_from_its_first_event_to_terminated_and_again() -> None:
    tables = compute(
        [
            PRICE,
            node("n", "ready", T0 + 10 * S, gpu_count=8),
            node("n", "draining", T0 + 20 * S, gpu_count=4),
            node("n", "terminated", T0 + 30 * S),
            node("n", "ready", T0 + 35 * S, gpu_count=100),  # changes nothing while terminated
            node("n", "provisioned", T0 + 40 * S),  # 4 GPUs still
            node("m", "provisioned", T0 + 40 * S),  # gpu_count never named: an instance, without a price
        ],
        as_of_ms=T0 + 50 * S,
    )
    assert {(key.minute, key.node, key.sku): row for key, row in tables.nodes.items()} == {
        (M0, "n", "p"): (8000 * 10 * S + 4000 * 10 * S + 4000 * 10 * S, 160_000_000),
        (M0, "m", ""): (1000 * 10 * S, 0),
    }


def test_the_clock_cuts_the_present_service_of_a_node_and_none_that_ended() -> None:
    lines = [
        PRICE,
        node("n", "provisioned", T0, gpu_count=1),
        node("n", "terminated", T0 + 10 * S),
        node("n", "provisioned", T0 + 20 * S),
        node("n", "ready", T0 + 25 * S, gpu_count=2),
    ]
    # Ended: 10 s x 1. Present: 5 s x 1 and 5 s x 2 by 30 s; 2 s by 22 s; nothing of it by 5 s.
    sums = [sum(r.quantity for r in compute(lines, as_of_ms=T0 + s * S).nodes.values()) for s in (30, 22, 5)]
    assert sums == [25_000_000, 12_000_000, 10_000_000]


def test_a_node_without_a_price_has_a_row_of_cost_zero() -> None:
    lines = [
        price("p", "1", team="red"),
        node("n", "ready", T0, gpu_count=1),
        node("n", "terminated", T0 + S),
    ]
    assert {k.sku: r for k, r in compute(lines).nodes.items()} == {"": (1_000_000, 0)}


def test_duplicates_are_by_topic_owner_source_and_id_whatever_the_attempt() -> None:
    lines = [
        network("j", T0 + S, 0, bytes=1, source="a", id="1"),
        network("j", T0 + S, 0, bytes=2, source="a", id="1", attempt=2),  # one event: the first counts
        network("j", T0 + S, 0, bytes=4, source="b", id="1"),
        network("k", T0 + S, 0, bytes=8, source="a", id="1"),
        storage("j", T0 + S, 0, "write", bytes=16, source="a", id="1"),
        node("j", "ready", T0, source="a", id="1"),
        node("j", "ready", T0, source="a", id="1"),
    ]
    tables = compute(lines)
    assert sum(r.quantity for r in tables.ledger.values()) == 1 + 4 + 8 + 16
    assert (tables.counts.applied, tables.counts.duplicate) == (5, 2)


@pytest.mark.parametrize(("behind_ms", "late"), [(24 * HOUR_MS, False), (24 * HOUR_MS + 1, True)])
def test_the_horizon_is_counted_within_one_partition_of_one_topic(behind_ms: int, late: bool) -> None:
    newest = network("j", T0, 0, bytes=1)
    old = network("k", T0 - behind_ms, 0, bytes=1)
    assert compute([newest, old]).counts.too_late == late
    assert compute([newest, dataclasses.replace(old, partition=1)]).counts.too_late == 0
    assert compute([newest, job("k", "started", T0 - behind_ms)]).counts.too_late == 0
    assert compute([old, newest]).counts.too_late == 0
    refused = dataclasses.replace(newest, valid=False)  # a refused record is no newest one
    assert compute([refused, old]).counts.too_late == 0


def test_the_future_is_refused_and_moves_no_clock() -> None:
    lines = [
        PRICE,
        job("j", "started", T0, gpu_count=1),
        job("j", "completed", T0 + 5 * M + 1),
        job("j", "heartbeat", T0 + 5 * M),
    ]
    tables = compute(lines, run_start_ms=T0)
    assert tables.dead == [(2, "future")]
    assert quantity(tables, "j") == 300_000_000
    assert tables.counts.dead_lettered == 1


def test_refused_records_are_counted_and_change_nothing() -> None:
    tables = compute([Line("jobs", b"{", valid=False), Line("jobs", b'{"job_id":"j","type":"queued","time_ms":1,'
                                                                    b'"source":"s","id":"1"}')])  # fmt: skip
    assert tables.dead == [(0, "invalid")]
    assert tables.jobs["j"].state == "queued"


def test_job_by_job_gives_the_same_as_the_whole_log() -> None:
    lines = [
        PRICE,
        job("a", "started", T0, gpu_count=1),
        gpu("b", T0 + M, M, {"0": 0.5}),
        network("b", T0 + 2 * M, M, bytes=77),
    ]
    whole = compute(lines)
    for name in ("a", "b"):
        mine = [line for line in lines if isinstance(line.value, dict) and line.value.get("job_id") == name]
        part = compute_job(mine, book=price_book(lines), as_of_ms=T0 + 2 * M)
        assert part.ledger == ledger(whole, name)
        assert part.jobs == {name: whole.jobs[name]}
    assert total_nano(whole, "a") == 120_000_000
