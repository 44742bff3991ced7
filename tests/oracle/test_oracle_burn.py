"""Hand-worked cases of burn rates, and the oracle's curve against its own ledger.

Every figure is worked out in the comment beside it.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest

from tests.oracle.burn import Burn
from tests.oracle.cases import T0, gpu, job, network, price, storage
from tests.oracle.compute import compute
from tests.oracle.judge import rates
from tests.oracle.knowledge import Knowledge, in_log_time
from tests.oracle.model import HOUR_MS, MINUTE_MS, Json, Line
from tests.oracle.pieces import SCALE
from tests.strategies.traces import make_trace, merged

USD = 10**9
MIN_5, MIN_15, H_1, H_6 = 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS
S = 1000


def known(*lines: Line, at_ms: int, job_id: str = "j") -> Burn:
    """The burn of a job, all lines being read."""
    told = [one._replace(log_ms=0) for one in in_log_time(lines)]
    found = Knowledge(told).burn(job_id, at_ms)
    assert found is not None
    return found


def window_usd(burn: Burn, at_ms: int, window_ms: int) -> tuple[Fraction, Fraction]:
    cost, expected = burn.window(at_ms, window_ms)
    return Fraction(cost, SCALE * MINUTE_MS * USD), Fraction(expected, SCALE * MINUTE_MS * USD)


def control(kind: str, name: str, **values: object) -> Line:
    event: Json = {"kind": kind, "name": name, "source": "test", "id": name, "time_ms": T0, **values}
    return Line("controls", event)


def test_a_young_job_is_divided_by_its_age() -> None:
    # 6 $/h for 10 min is 1 $; 0.50 $ of it in the last 5 min. Per hour both are 6 $.
    burn = known(price("p", "6"), job("j", "started", T0, gpu_count=1), at_ms=T0 + 10 * MINUTE_MS)
    at_ms = T0 + 10 * MINUTE_MS
    assert window_usd(burn, at_ms, MIN_5) == (Fraction("0.5"), Fraction("0.5"))
    assert window_usd(burn, at_ms, MIN_15) == (Fraction(1), Fraction(1))
    assert [burn.rate_nano(at_ms, w) for w in (MIN_5, MIN_15, H_1, H_6)] == [6 * USD] * 4
    assert burn.rate_nano(T0, MIN_5) == 0  # the first paid instant: no time to divide by


def test_the_minute_at_the_far_edge_counts_in_proportion() -> None:
    # 1 GPU of 6 $/h, 10 GPUs from 20 s on. At 5 min 30 s the window reaches back to 30 s: half of minute 0, which
    # cost 20 s x 6 $/h + 40 s x 60 $/h = 0.70 $, so 0.35 $; minutes 1 to 4: 4 $; 30 s of minute 5: 0.50 $.
    burn = known(
        price("p", "6"),
        job("j", "started", T0, gpu_count=1),
        job("j", "scaled", T0 + 20 * S, gpu_count=10),
        at_ms=T0 + 330 * S,
    )
    cost, expected = window_usd(burn, T0 + 330 * S, MIN_5)
    assert cost == Fraction("4.85")
    assert expected == 5  # 300 s x 60 $/h: it grew within ten minutes of its start
    assert burn.rate_nano(T0 + 330 * S, MIN_5) == Fraction("58.2") * USD
    # At a whole minute nothing is in proportion: minutes 1 to 5.
    assert window_usd(burn, T0 + 360 * S, MIN_5)[0] == 5


def test_traffic_is_a_lump_of_its_minute() -> None:
    # 9 GB at 0.10 $/GB fall into minute 2 (interval 0, at 2 min 50 s); 1 $/h of GPU beside it.
    lines = (
        price("p", "1"),
        price("net", "0.10", component="network", per="gb"),
        job("j", "started", T0, gpu_count=1),
        network("j", T0 + 170 * S, 0, bytes=9 * 10**9),
    )
    burn = known(*lines, at_ms=T0 + 170 * S)
    # As soon as minute 2 has begun it counts whole, even before its instant in the minute.
    assert window_usd(burn, T0 + 120 * S, MIN_5)[0] == Fraction("0.9") + Fraction(120, 3600)
    assert window_usd(burn, T0 + 119 * S, MIN_5)[0] == Fraction(119, 3600)
    # At 7 min 30 s half of minute 2 has left the window; at 8 min all of it.
    assert window_usd(burn, T0 + 450 * S, MIN_5)[0] == Fraction("0.45") + Fraction(300, 3600)
    assert window_usd(burn, T0 + 480 * S, MIN_5)[0] == Fraction(300, 3600)


def test_a_declared_rate_does_not_reach_back_and_a_plan_stands_in() -> None:
    # Quoted 2 $/h; 4 $/h declared from 2 min on; a plan of 60 $/h in minute 3 (the smaller name of two).
    lines = (
        price("p", "2"),
        job("j", "started", T0, gpu_count=1),
        job("j", "updated", T0 + 120 * S, expected_usd_per_hour="4", owner="ann"),
        control("planned", "b", from_ms=T0 + 180 * S, until_ms=T0 + 240 * S, usd_per_hour="60", owner="ann"),
        control("planned", "c", from_ms=T0 + 180 * S, until_ms=T0 + 300 * S, usd_per_hour=4, job_id="j"),
        control("planned", "a", from_ms=T0 + 180 * S, usd_per_hour=999, owner="bob"),
    )
    burn = known(*lines, at_ms=T0 + 300 * S)
    # 2 min x 2 $/h + 1 min x 4 $/h + 1 min x 60 $/h + 1 min x 4 $/h = (4 + 4 + 60 + 4) / 60 $.
    assert window_usd(burn, T0 + 300 * S, MIN_5)[1] == Fraction(72, 60)
    in_force = [
        burn.expected_rate(T0 + s * S) * HOUR_MS // SCALE // USD for s in (0, 119, 120, 180, 239, 240)
    ]
    assert in_force == [2, 2, 4, 60, 60, 4]


def test_only_paid_time_is_expected_to_cost() -> None:
    # Paid minutes 0 and 1, released for 2 min, paid again for 1: 3 of 5 min at 6 $/h.
    burn = known(
        price("p", "6"),
        job("j", "started", T0, gpu_count=1),
        job("j", "suspended", T0 + 120 * S),
        job("j", "resumed", T0 + 240 * S),
        at_ms=T0 + 300 * S,
    )
    assert window_usd(burn, T0 + 300 * S, MIN_5) == (Fraction("0.3"), Fraction("0.3"))
    assert burn.rate_nano(T0 + 300 * S, MIN_5) == Fraction("3.6") * USD
    assert burn.paid_since(T0 + 300 * S, T0 + 240 * S)
    assert not burn.paid_since(T0 + 300 * S, T0 + 239 * S)
    assert not burn.paid_since(T0 + 240 * S, T0 + 239 * S)


@pytest.mark.parametrize(
    ("late_effective_s", "quoted_usd"),
    # The GPU's price of 3 $/h holds from then on: until it does, the job's 1 $/h alone does not quote it. 2 x 3 + 1 = 7.
    [(0, 7), (60, 7), (90, 8)],
)
def test_the_quoted_rate_is_that_of_the_first_instant_at_which_all_gpus_have_a_price(
    late_effective_s: int, quoted_usd: int
) -> None:
    burn = known(
        price("desk", "1", component="overhead", per="job_hour"),
        price("p", "3" if late_effective_s < 90 else "3.5", effective_ms=T0 + late_effective_s * S),
        job("j", "started", T0, gpu_count=1),
        job("j", "scaled", T0 + 90 * S, gpu_count=2),  # 2 x 3.5 + 1 = 8
        at_ms=T0 + 600 * S,
    )
    assert burn.expected_rate(T0) * HOUR_MS == quoted_usd * USD * SCALE
    assert burn.unpriced(T0 + 1) is (late_effective_s > 0)


def test_a_metered_job_pays_its_sampled_seconds() -> None:
    # 2 GPUs of 3 $/h in minute 0, one of them in 30 s of minute 2; nobody sampled minute 1.
    burn = known(
        price("p", "3"),
        gpu("j", T0 + 60 * S, 60 * S, {"a": 1, "b": 0}),
        gpu("j", T0 + 150 * S, 30 * S, {"a": 1}),
        at_ms=T0 + 300 * S,
    )
    assert window_usd(burn, T0 + 300 * S, MIN_5) == (Fraction("0.125"), Fraction("0.15"))  # 2 x 60 s + 30 s
    assert burn.paid == [(T0, T0 + 60 * S), (T0 + 120 * S, T0 + 150 * S)]
    assert not burn.ended


def test_a_sample_that_covers_no_second_prices_no_minute() -> None:
    # The newer sample ends within the second in which it begins: the 3 $/h of the older one stand.
    burn = known(
        price("p", "3", gpu_type="H100"),
        price("q", "9", gpu_type="A100"),
        gpu("j", T0 + 10 * S, 10 * S, {"a": 1}, gpu_type="H100"),
        gpu("j", T0 + 20 * S + 900, 1, {"a": 1}, gpu_type="A100"),
        at_ms=T0 + 60 * S,
    )
    assert window_usd(burn, T0 + 60 * S, MIN_5)[0] == Fraction(30, 3600)


def test_a_metered_job_burns_on_for_two_minutes_after_its_newest_sample() -> None:
    samples = [gpu("j", T0 + 60 * S, 60 * S, {"a": 1, "b": 0}), gpu("j", T0 + 70 * S, 10 * S, {"a": 1})]
    knowledge = Knowledge(in_log_time([price("p", "3"), *samples]))
    shown = [rates(knowledge, "j", T0 + s * S) for s in (60, 70, 189, 190)]
    # Told of at 60 s: two GPUs, still at that instant; then one, until 190 s.
    assert [rate.now / USD for rate in shown] == [6, 3, 3, 0]
    assert [rate.expected / USD for rate in shown] == [6, 6, 6, 0]


def test_nothing_is_said_of_a_job_that_was_never_paid() -> None:
    told = in_log_time([price("p", "1"), job("j", "queued", T0), storage("j", T0 + 1, 0, "write", bytes=5)])
    found = rates(Knowledge(told), "j", T0 + MIN_5)
    assert not any((*found.windows, found.expected, found.now))


def test_a_price_that_does_not_fit_the_scale_is_not_rounded() -> None:
    with pytest.raises(ValueError, match="no whole number"):
        known(
            price("p", "6", per="instance_hour", gpus=17),
            job("j", "started", T0, gpu_count=1),
            at_ms=T0 + MIN_5,
        )


def seen_by(lines: list[Line], at_ms: int) -> list[Line]:
    return [one.line for one in in_log_time(lines) if one.log_ms <= at_ms]


@pytest.mark.parametrize("seed", range(24))
def test_the_curve_is_the_ledger_as_of_the_tick(seed: int) -> None:
    # Each row of the ledger is rounded to a nano-dollar; the curve is not: half of one per row, and no more.
    lines = merged([make_trace(seed, hours_at_most=3)])
    told = in_log_time(lines)
    knowledge, rng = Knowledge(told), random.Random(seed)
    for at_ms in sorted(rng.randrange(told[0].log_ms, told[-1].log_ms) // 10_000 * 10_000 for _ in range(4)):
        cost: dict[str, Counter[int]] = {}
        rows: dict[str, Counter[int]] = {}
        tables = compute(seen_by(lines, at_ms), as_of_ms=at_ms)
        for key, row in tables.ledger.items():
            cost.setdefault(key.job_id, Counter())[key.minute] += row.cost_nano
            rows.setdefault(key.job_id, Counter())[key.minute] += 1
        unpriced = {key.job_id for key in tables.ledger if not key.sku}
        for job_id in tables.jobs:
            burn = knowledge.burn(job_id, at_ms)
            assert burn is not None
            assert burn.unpriced(at_ms) is (job_id in unpriced)
            assert (
                sum(min(b, at_ms) - a for a, b in burn.paid if a < at_ms) >= tables.jobs[job_id].wall_clock_ms
            )
            mine, theirs = cost.get(job_id, Counter()), rows.get(job_id, Counter())
            for window_ms in (MIN_5, H_6):
                far, inside_ms = divmod(at_ms - window_ms, MINUTE_MS)
                whole = sum(nano for minute, nano in mine.items() if far < minute <= at_ms // MINUTE_MS)
                part = Fraction((MINUTE_MS - inside_ms) * mine[far], MINUTE_MS)
                got = Fraction(burn.window(at_ms, window_ms)[0], MINUTE_MS * SCALE)
                assert abs(got - whole - part) <= Fraction(sum(theirs.values()), 2)


@pytest.mark.parametrize(
    ("scaled_s", "quoted_usd"),
    # (seconds, GPUs) of each size: the start goes on as long as it grows within ten minutes of the last growth.
    [
        ([(25, 2), (50, 4), (640, 8)], 24),
        ([(600, 2), (1_201, 8)], 6),
        ([(601, 8)], 3),
        ([(60, 4), (120, 2), (700, 3)], 12),
    ],
)
def test_a_start_that_grows_is_quoted_by_its_last_growth(
    scaled_s: list[tuple[int, int]], quoted_usd: int
) -> None:
    burn = known(
        price("p", "3"),
        job("j", "started", T0, gpu_count=1),
        *(job("j", "scaled", T0 + at_s * S, gpu_count=gpus) for at_s, gpus in scaled_s),
        at_ms=T0 + 2 * 3_600 * S,
    )
    assert burn.expected_rate(T0) * HOUR_MS == quoted_usd * USD * SCALE


def test_the_first_gpus_are_a_start_however_late() -> None:
    burn = known(
        price("p", "3"),
        price("desk", "1", component="overhead", per="job_hour"),
        job("j", "started", T0, cpu_count=8),
        job("j", "scaled", T0 + 3_600 * S, gpu_count=8),
        job("j", "scaled", T0 + 3_900 * S, gpu_count=16),
        job("j", "scaled", T0 + 5_000 * S, gpu_count=64),
        at_ms=T0 + 2 * 3_600 * S,
    )
    assert burn.expected_rate(T0) * HOUR_MS == 49 * USD * SCALE


def test_a_sampled_second_in_which_a_price_changes_has_one_rate() -> None:
    burn = known(
        price("p", "3"),
        price("people", "1", component="labor", effective_ms=T0 + 250),
        gpu("j", T0 + 5 * S, 5 * S, {"0": 1.0}),
        at_ms=T0 + 60 * S,
    )
    assert burn.expected_rate(T0) * HOUR_MS * 4 == 15 * USD * SCALE  # 3 for a quarter of the second, then 4
