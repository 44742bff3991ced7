"""From what a job costs over time to its alerts: instants worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.durations import NEVER_MS
from schemas.events import ControlEvent
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.judge import Judge
from streams.engine.kernels.episode import UNPRICED
from streams.engine.pricing.kinds import PriceRef
from streams.engine.state.dimensions import AlertDimensions
from streams.engine.timeline.lines import Line
from streams.engine.windows.curve import Curve, build_curve
from streams.engine.windows.curves import CurveBook, Fact
from tests.engine.alerts.scene import ALL_ON, HOUR_MS, START_MS, TICK_MS, USD, judged

PRICE = PriceRef("gpu", "gpu_milli_ms", "h100", 0, 3 * USD, 3_600_000 * 1000)
GPU_MILLI = 1000


def curve(
    *stretches: tuple[int, int],
    declared: Sequence[tuple[int, int]] = (),
    planned: Sequence[tuple[int, int, int]] = (),
    price: PriceRef = PRICE,
    ended_ms: int = NEVER_MS,
    undecided_until_ms: int = 0,
) -> Curve:
    """A job that begins six hours before START and goes on; (seconds after START, GPUs from then on)."""
    cuts = [
        START_MS - 6 * HOUR_MS,
        *(START_MS + s * 1000 for s, _ in stretches),
        min(ended_ms, START_MS + 10**9),
    ]
    gpus = [10, *(count for _, count in stretches)]
    intervals = [
        (begin, end, count * GPU_MILLI, 0)
        for begin, end, count in zip(cuts, cuts[1:], gpus, strict=False)
        if begin < end
    ]
    return build_curve(
        "j",
        lines=[{Line("n", "running", price): intervals}],
        paid=[(cuts[0], cuts[-1])],
        seconds=(),
        lumps={},
        declared=declared,
        planned=planned,
        ended_ms=ended_ms,
        since_ms=0,
        undecided_until_ms=undecided_until_ms,
    )


def alerts(of: Curve, hours: int = 2) -> list[Alert]:
    book = CurveBook()
    book.replace(of)
    unpriced = [Fact(UNPRICED, of.unpriced_from_ms + 1, NEVER_MS)] if of.unpriced_from_ms < NEVER_MS else []
    book.set_facts(of.job_id, unpriced, NEVER_MS, 0)
    ticks = np.arange(START_MS, START_MS + hours * HOUR_MS, TICK_MS)
    found = judged(Judge(), ticks.tolist(), book.job_ids, book.figures(ticks), AlertDimensions, ALL_ON)
    return [alert for alert in found if is_change(alert)]


def seconds(found: Sequence[Alert]) -> list[tuple[str, str, int]]:
    return [(alert.rule, alert.status, (alert.changed_ms - START_MS) // 1000) for alert in found]


def test_nine_times_the_gpus_for_ten_minutes() -> None:
    """After x s: 1 + 8x/300 >= 6 from x = 187.5 on. After them: 1 + 8 (300 - x)/300 < 4.8 from x = 157.5 on."""
    found = alerts(curve((0, 90), (600, 10)))
    assert seconds(found) == [
        ("burn_fast", "firing", 190),
        ("burn_fast", "resolved", 760),
        # 1 + 8 x 600/3600 >= 2.1 over the hour, and 1 + 8 x 600/900 >= 2.1 over 15 min, but that is memory.
    ]
    fired = found[0]
    assert fired.cost_nano == round(30 * USD * (900 + 8 * 190) / 3600)
    assert fired.usd_nano_per_hour == round(30 * USD * (900 + 8 * 190) / 900)
    assert fired.expected_nano_per_hour == 30 * USD
    assert fired.ratio == round((900 + 8 * 190) / 900, 9)


def test_a_ratio_that_is_just_the_threshold_counts() -> None:
    """21 GPUs for 10: the hour reaches 2.1 when it is full, whatever the last bits of the sums say."""
    found = alerts(curve((0, 21)))
    assert seconds(found) == [("burn_sustained", "firing", 3600)]


def test_a_declared_or_planned_rate_is_no_alert() -> None:
    assert alerts(curve((0, 90), declared=[(START_MS, 270 * USD)])) == []
    record = {"match": {"job": "j"}, "from_ms": START_MS, "usd_per_hour": "270"}
    event = ControlEvent(source="s", id="1", time_ms=1, kind="planned", name="p", value=record)
    planned = Controls.from_events([event]).planned_for(AlertDimensions("j"))
    assert alerts(curve((0, 90), planned=planned)) == []
    assert alerts(curve((0, 90), planned=Controls.from_events([event]).planned_for(AlertDimensions("k"))))


def test_the_end_of_the_job_is_the_end_of_its_alert() -> None:
    found = alerts(curve((0, 90), ended_ms=START_MS + 305_000))
    assert seconds(found) == [("burn_fast", "firing", 190), ("burn_fast", "resolved", 310)]
    # At that tick its rule held still: 305 of the last 900 s, at nine times the rate.
    assert found[1].held_ms == START_MS + 310_000


def test_what_broke_off_may_go_on_for_a_while() -> None:
    """From 605 s on nothing is left in the 5 min, which decides nothing."""
    ended_ms = START_MS + 305_000
    found = alerts(curve((0, 90), ended_ms=ended_ms, undecided_until_ms=ended_ms + 600_000))
    assert seconds(found) == [("burn_fast", "firing", 190), ("burn_fast", "resolved", 910)]


def test_gpu_time_without_a_price() -> None:
    unpriced = PriceRef("gpu", "gpu_milli_ms", "", 0, 0, 1)
    assert seconds(alerts(curve((0, 90), price=unpriced))) == [("unpriced", "firing", 0)]
