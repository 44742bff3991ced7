"""What a burn alert names as its cause: the change that explains the largest share of the extra cost."""

from __future__ import annotations

from typing import Any

import pytest

from streams.engine.rules.burn_cause import JobRates, burn_cause
from tests.engine.rules.told import M, sentences
from tests.oracle.cases import T0, gpu, job, price
from tests.oracle.model import HOUR_MS, Line
from tests.strategies.logs import time_of

OTHER = job("other", "queued", T0 + 2 * HOUR_MS)
START = job("run-1", "started", T0, gpu_count=8, purchase="spot", gpu_type="A100")
HALF = T0 + 30 * M


def cause(*lines: Line, rule: str = "burn_fast", later: int = T0 + 2 * HOUR_MS) -> str:
    """What is said after the figures, as long as the rule holds."""
    told = sentences(*(line for line in (*lines, OTHER) if time_of(line) <= later))[rule, "firing"]
    return told.partition(" expected: ")[2]


def scaled(at_ms: int = HALF, gpus: int = 80, **more: Any) -> Line:
    return job("run-1", "scaled", at_ms, gpu_count=gpus, **more)


def test_more_gpus() -> None:
    told = sentences(START, scaled(), OTHER)["burn_fast", "firing"]
    assert told.startswith("run-1 burns $")
    assert len(told) < 200
    assert " expected: 80 GPUs since 00:30, 8 before; scale it back or declare it, else $" in told


def test_what_it_costs_by_a_whole_hour_a_night_later() -> None:
    told = sentences(START, scaled(), job("run-1", "heartbeat", HALF + 12 * M))["burn_fast", "firing"]
    # 8 GPUs cost $14.40/h, 80 of them 12 min of 15: $118.08/h.
    # What goes on is $144/h, $129.60 of it too much, for the 7 h 18 min from 00:42 on.
    assert told.startswith("run-1 burns $144/h, $118/h over 15 min, 8.2x the $14/h expected: 80 GPUs")
    assert told.endswith(", else $946 more by 08:00 UTC")


def test_a_retry_that_is_larger() -> None:
    lines = (
        START,
        job("run-1", "failed", HALF, reason="node_failure"),
        job("run-1", "started", HALF + M, attempt=2, gpu_count=80),
    )
    assert cause(*lines).startswith("80 GPUs since 00:31 (after node_failure), 8 before; ")


def test_attempts_at_once() -> None:
    started = job("run-1", "started", HALF, attempt=2, gpu_count=72)
    done = job("run-1", "completed", T0 + 50 * M)
    later = job("run-1", "heartbeat", T0 + 51 * M, attempt=2)
    # Until its end is told, the first attempt counts as superseded by the second.
    heard = job("run-1", "heartbeat", T0 + 45 * M, attempt=2)
    assert cause(START, started, heard, later=T0 + 45 * M).startswith(
        "72 GPUs since 00:30 (after superseded)"
    )
    words = cause(START, started, done, later, later=T0 + 51 * M)
    assert words.startswith("80 GPUs from 00:30 to 00:50 (attempts 1 and 2 at once), 8 before; ")


def test_what_was_scaled_back_since_is_not_to_be_scaled_back() -> None:
    back = scaled(at_ms=HALF + 16 * M, gpus=8)
    told = sentences(START, scaled(gpus=800), back, job("run-1", "heartbeat", HALF + 20 * M), OTHER)
    (words,) = [text for (rule, status), text in told.items() if (rule, status) == ("burn_fast", "firing")]
    assert words.endswith("8 before; that is over, declare it if it comes again")


def test_another_purchase_and_the_attempt_before() -> None:
    lines = (
        price("reserved", "41", match={"purchase": "reserved"}),
        START,
        job("run-1", "preempted", HALF, reason="spot_reclaim"),
        job("run-1", "started", HALF, attempt=2, purchase="reserved"),
    )
    assert cause(*lines).startswith(
        "reserved at $41.00 per GPU-h since 00:30 (after spot_reclaim), spot at $1.80 before; move it back or"
    )


def test_other_hardware() -> None:
    lines = (
        price("b200", "30", match={"purchase": "spot", "gpu_type": "B200"}),
        START,
        job("run-1", "updated", HALF, gpu_type="B200"),
    )
    assert cause(*lines).startswith(
        "B200 at $30.00 per GPU-h since 00:30, A100 at $1.80 before; move it back"
    )


def test_a_price_revision_names_the_sku() -> None:
    revision = price("spot", "18", effective_ms=HALF, match={"purchase": "spot"})
    assert cause(START, revision).startswith(
        "price of spot $18.00 since 00:30, $1.80 before; check the price or declare"
    )


def test_what_nothing_explains_is_above_the_declared_rate() -> None:
    start = job("run-1", "started", T0, gpu_count=8, purchase="spot", expected_usd_per_hour="1.5")
    assert cause(start).startswith("$14/h since 00:00 is above the declared $1.50/h; stop it or declare")


def test_what_lies_above_a_planned_rate() -> None:
    plan = {"kind": "planned", "name": "p", "job_id": "run-1", "usd_per_hour": "1", "from_ms": HALF}
    record = Line("controls", plan | {"time_ms": T0, "source": "s", "id": "1"})
    assert cause(START, record).startswith("$14/h since 00:30 is above the planned $1.00/h; ")


def test_the_largest_share_wins() -> None:
    revision = price("spot", "3.6", effective_ms=HALF, match={"purchase": "spot"})
    assert cause(START, scaled(gpus=64), revision).startswith("64 GPUs since 00:30, 8")


def test_a_stretch_that_is_over_has_an_end() -> None:
    heard = job("run-1", "heartbeat", HALF + 11 * M)
    told = cause(START, scaled(), scaled(HALF + 10 * M, gpus=20), heard, later=HALF + 11 * M)
    assert told.startswith("80 GPUs from 00:30 to 00:40, 8 before; ")


def test_sampled_jobs_have_no_cause() -> None:
    assert burn_cause(JobRates({}, (), (), ()), T0, HALF) == ""


def test_what_is_expected_of_a_sample_alone_is_no_cause() -> None:
    """A millisecond that was only sampled sets what is expected; nothing that events tell of lies above it."""
    lines = [
        price("s0", "4"),
        price("s1", "99999", component="compute", per="job_hour"),
        price("s1", "4", component="compute", per="job_hour", effective_ms=T0 + 999),
        gpu("run-1", T0, 1, {"0": 0.0}, attempt=2),
        job("run-1", "started", T0),
    ]
    told = sentences(*lines, job("other", "queued", T0 + 5 * M))["burn_fast", "firing"]
    assert "x the $4.00/h expected: since 00:05 UTC; stop it or declare it" in told


@pytest.mark.parametrize("day", [0, 1])
def test_another_day_is_named(day: int) -> None:
    at_ms = T0 + day * 24 * HOUR_MS - 10 * M if day else HALF
    later = sentences(START, scaled(at_ms), job("other", "queued", at_ms + 15 * M))["burn_fast", "firing"]
    assert ("since 2024-01-01 23:50," if day else "since 00:30,") in later
