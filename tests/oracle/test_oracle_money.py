"""Hand-worked cases of the oracle's money: rounding, prices, revisions and which SKU wins.

Every figure is worked out in the comment beside it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle.cases import T0, job, ledger, network, price, total_nano
from tests.oracle.compute import compute, price_book
from tests.oracle.model import HOUR_MS, LARGEST_COST_NANO, Line, cost_nano, milli, usd_nano

USD = 10**9


def test_four_dollars_for_one_hour_against_one_forty_for_two_point_two() -> None:
    # 4.00 $/h x 1 h = 4.00; 1.40 $/h x 2.2 h (7,920,000 ms) = 3.08.
    tables = compute(
        [
            price("big", "4.00", gpu_type="H100"),
            price("small", "1.40", gpu_type="A10"),
            job("fast", "started", T0, gpu_count=1, gpu_type="H100"),
            job("fast", "completed", T0 + HOUR_MS),
            job("slow", "started", T0, gpu_count=1, gpu_type="A10"),
            job("slow", "completed", T0 + 7_920_000),
        ]
    )
    # 60 and 132 rows; a minute is 4/60 $ = 66,666,667 and 1.4/60 $ = 23,333,333 nano-dollars, so the rows
    # sum to 60 x 66,666,667 = 4,000,000,020 and 132 x 23,333,333 = 3,079,999,956.
    assert len(ledger(tables, "fast")) == 60
    assert len(ledger(tables, "slow")) == 132
    assert total_nano(tables, "fast") == 4_000_000_020
    assert total_nano(tables, "slow") == 3_079_999_956
    assert tables.jobs["slow"].wall_clock_ms == 7_920_000


def test_a_row_is_rounded_half_to_even_once() -> None:
    # 1.8 $/h: one thousandth of a GPU for 1 ms costs 1 x 1.8e9 / 3.6e9 = 0.5 nano -> 0; three cost 1.5 -> 2.
    assert [cost_nano(q, 1_800_000_000, 3_600_000_000) for q in (1, 2, 3, 5)] == [0, 1, 2, 2]
    tables = compute(
        [
            price("p", "1.8"),
            job("j", "started", T0, gpu_count=0.001),
            job("j", "scaled", T0 + 1, gpu_count=0.002),  # the same row: 1 + 2 = 3 -> 1.5 -> 2, not 0 + 1
            job("j", "completed", T0 + 2),
        ]
    )
    [(quantity, cost, _, _)] = ledger(tables, "j").values()
    assert (quantity, cost) == (3, 2)


def test_money_and_thousandths_are_exact() -> None:
    assert usd_nano("99999.999999999") == 99_999_999_999_999
    assert usd_nano("0") == 0
    assert milli(0.1) == 100
    assert milli(2.675) == 2675


def test_a_cost_beyond_decimal_18_9_is_capped() -> None:
    # 2^53 bytes at 99,999 $/gb would cost 900,710,918,235 $, over 999,999,999.999999999 $.
    assert cost_nano(2**53, usd_nano("99999"), 10**9) == LARGEST_COST_NANO
    tables = compute(
        [
            price("egress", "99999", component="network", per="gb"),
            network("j", T0 + 1000, 1000, bytes=2**53),
        ]
    )
    [(quantity, cost, _, _)] = ledger(tables, "j").values()
    assert (quantity, cost) == (2**53, 10**18 - 1)


def test_a_price_change_inside_a_minute_cuts_the_row() -> None:
    tables = compute(
        [
            job("j", "started", T0, gpu_count=2),
            job("j", "completed", T0 + 60_000),
            price("p", "3.6", effective_ms=0),  # late: it comes after the usage it prices
            price("p", "7.2", effective_ms=T0 + 15_000),
        ]
    )
    # 15 s x 2 GPUs x 3.6 $/h = 0.03 $; 45 s x 2 GPUs x 7.2 $/h = 0.18 $.
    rows = {key.price_effective_ms: row for key, row in ledger(tables, "j").items()}
    assert rows[0][:2] == (30_000_000, 30_000_000)
    assert rows[T0 + 15_000][:2] == (90_000_000, 180_000_000)


def test_of_two_records_of_one_revision_the_later_stands() -> None:
    lines = [
        price("p", "2", time_ms=T0 + 5, source="a", id="1"),
        price("p", "9", time_ms=T0 + 4, source="z", id="9"),
        price("p", "3", time_ms=T0 + 5, source="b", id="0"),
        job("j", "started", T0, gpu_count=1),
        job("j", "completed", T0 + 60_000),
    ]
    # The latest by (time_ms, source, id) is the one of source b: 3 $/h x 1 min = 0.05 $.
    assert total_nano(compute(lines), "j") == 50_000_000


def test_a_revision_may_change_the_match_and_so_lose_the_candidate() -> None:
    lines = [
        price("p", "3", effective_ms=0),
        price("p", "6", effective_ms=T0 + 30_000, gpu_type="H100"),  # from here on only for H100
        job("j", "started", T0, gpu_count=1, gpu_type="A10"),
        job("j", "completed", T0 + 60_000),
    ]
    rows = {(key.sku, key.price_effective_ms): row for key, row in ledger(compute(lines), "j").items()}
    # 30 s at 3 $/h = 0.025 $; then 30 s without a price.
    assert rows == {("p", 0): (30_000_000, 25_000_000, 0, 0), ("", 0): (30_000_000, 0, 0, 0)}


def test_before_its_first_revision_a_sku_is_no_candidate() -> None:
    lines = [
        price("any", "1"),
        price("best", "2", effective_ms=T0 + 20_000, region="eu"),
        job("j", "started", T0, gpu_count=1, region="eu"),
        job("j", "completed", T0 + 60_000),
    ]
    assert {k.sku: r.quantity for k, r in ledger(compute(lines), "j").items()} == {
        "any": 20_000_000,
        "best": 40_000_000,
    }


@pytest.mark.parametrize(
    ("candidates", "winner"),
    [
        ({"a": {}, "b": {"region": "eu"}}, "b"),  # most match fields
        ({"a": {"region": "eu", "cloud": "aws"}, "b": {"zone": "z1"}}, "a"),  # two beat one
        ({"a": {"region": "eu"}, "b": {"zone": "z1"}}, "b"),  # a tie: zone is first in the order
        ({"a": {"gpu_type": "H100"}, "b": {"instance_type": "p5"}}, "b"),
        ({"a": {"region": "eu"}, "b": {"gpu_type": "H100"}}, "b"),
        ({"a": {"cluster": "c"}, "b": {"region": "eu"}}, "b"),
        ({"a": {"account": "x"}, "b": {"cluster": "c"}}, "b"),
        ({"a": {"cloud": "aws"}, "b": {"account": "x"}}, "b"),
        ({"a": {"purchase": "spot"}, "b": {"cloud": "aws"}}, "b"),
        ({"a": {"project": "p"}, "b": {"purchase": "spot"}}, "b"),
        ({"a": {"team": "t"}, "b": {"project": "p"}}, "b"),
        ({"a": {"zone": "z1", "team": "t"}, "b": {"zone": "z1", "project": "p"}}, "b"),
        ({"a": {"region": "us"}, "b": {}}, "b"),  # a field that differs is no match
        ({"a": {"path": "internet"}, "b": {}}, "b"),  # a job has no path
        ({"b": {"zone": "z1"}, "a": {"zone": "z1"}}, "a"),  # the smallest sku
        ({"a": {"zone": "z1", "region": None}, "b": {"zone": "z1", "team": "t"}}, "b"),  # null means any
    ],
)
def test_which_sku_wins(candidates: dict[str, dict[str, str | None]], winner: str) -> None:
    lines = [price(sku, "1", match=match) for sku, match in candidates.items()]
    fields = {
        "cloud": "aws", "region": "eu", "zone": "z1", "cluster": "c", "account": "x", "instance_type": "p5",
        "gpu_type": "H100", "purchase": "spot", "team": "t", "project": "p",
    }  # fmt: skip
    lines += [job("j", "started", T0, gpu_count=1, **fields), job("j", "completed", T0 + 1000)]
    assert [key.sku for key in ledger(compute(lines), "j")] == [winner]


def test_one_sku_wins_per_component_and_kind_of_quantity() -> None:
    lines = [
        price("node", "98.32", per="instance_hour", gpus=8),  # 98.32 / 8 = 12.29 $ per GPU-hour
        price("host", "1.2", component="compute", per="instance_hour"),
        price("cpu", "0.06", component="compute", per="vcpu_hour"),
        price("ram", "0.006", component="compute", per="memory_gib_hour"),
        price("slot", "0.6", component="compute", per="job_hour"),
        price("licence", "0.3", component="license", per="gpu_hour"),
        price("seat", "6", component="license", per="job_hour"),
        price("staff", "60", component="labor", per="job_hour"),
        price("scheduler", "2.4", component="overhead", per="instance_hour", gpus=4),
        job("j", "started", T0, gpu_count=2, instance_count=0.25, cpu_count=16, memory_gib=128.5),
        job("j", "completed", T0 + 60_000),
    ]
    rows = {
        (k.component, k.sku, k.unit): (r.quantity, r.cost_nano)
        for k, r in ledger(compute(lines), "j").items()
    }
    assert rows == {
        # 2 GPUs x 1 min: 2000 x 60,000 = 120,000,000; 2/60 h x 12.29 $ = 0.409666667 $
        ("gpu", "node", "gpu_milli_ms"): (120_000_000, 409_666_667),
        ("compute", "host", "instance_milli_ms"): (15_000_000, 5_000_000),  # 0.25/60 h x 1.2 $
        ("compute", "cpu", "cpu_milli_ms"): (960_000_000, 16_000_000),  # 16/60 x 0.06 $
        ("compute", "ram", "memory_gib_milli_ms"): (7_710_000_000, 12_850_000),  # 128.5/60 x 0.006 $
        ("compute", "slot", "ms"): (60_000, 10_000_000),  # 0.6/60 $
        ("license", "licence", "gpu_milli_ms"): (120_000_000, 10_000_000),  # 2/60 x 0.3 $
        ("license", "seat", "ms"): (60_000, 100_000_000),  # 6/60 $
        ("labor", "staff", "ms"): (60_000, USD),  # 60/60 $
        ("overhead", "scheduler", "gpu_milli_ms"): (120_000_000, 20_000_000),  # 2/60 x 2.4/4 $
    }


def test_without_gpus_the_other_time_is_still_paid() -> None:
    lines = [
        price("p", "3"),
        price("cpu", "0.06", component="compute", per="vcpu_hour"),
        price("staff", "60", component="labor", per="job_hour"),
        job("j", "started", T0, cpu_count=2),
        job("j", "completed", T0 + 60_000),
    ]
    assert {(k.component, k.node, k.phase) for k in ledger(compute(lines), "j")} == {
        ("compute", "", "running"),
        ("labor", "", "running"),
    }


def test_the_price_book_keeps_no_match_of_an_instant_before() -> None:
    book = price_book([price("p", "1", effective_ms=T0)])
    assert book.winner("gpu", "gpu_milli_ms", (), T0 - 1) is None
    assert book.winner("gpu", "gpu_milli_ms", (), T0) is not None


def test_each_label_of_a_job_costs_its_own_compliance() -> None:
    def at(job_id: str, **labels: str) -> list[Line]:
        start = job(job_id, "started", T0, gpu_count=2, gpu_type="H100", labels=labels)
        return [start, job(job_id, "completed", T0 + HOUR_MS)]

    def compliance(sku: str, usd: str, label: str, **values: Any) -> Line:
        return price(sku, usd, component="compliance", match={"label": label}, **values)

    tables = compute(
        [
            price("gpu", "3.60"),
            compliance("scans", "0.60", "data_class=pii", per="job_hour"),
            compliance("isolated", "0.36", "data_class=pii"),
            compliance("isolated.h100", "0.72", "data_class=pii", gpu_type="H100"),
            compliance("escrow", "1.20", "escrow=yes", per="job_hour"),
            *at("plain", data_class="public"),
            *at("pii", data_class="pii"),
            *at("both", data_class="pii", escrow="yes"),
        ]
    )
    # 2 GPUs x 1 h: 7.20. pii: 0.60 for the job and 2 x 0.72 for its H100s, the narrower price; escrow: 1.20 more.
    assert total_nano(tables, "plain") == 7_200_000_000
    assert total_nano(tables, "pii") == 7_200_000_000 + 600_000_000 + 1_440_000_000
    assert total_nano(tables, "both") == 9_240_000_000 + 1_200_000_000
    assert {key.sku for key in ledger(tables, "both") if key.component == "compliance"} == {
        "scans", "isolated.h100", "escrow",
    }  # fmt: skip
