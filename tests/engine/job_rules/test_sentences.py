"""What the alerts about a job say: the cause with its figures, what it costs, what to do, on one line whatever the names."""

from __future__ import annotations

from tests.engine.job_rules.told import M, sentences
from tests.oracle.cases import T0, gpu, job, network
from tests.oracle.model import HOUR_MS, Line


def failing(job_id: str, attempts: int, gpus: int = 8) -> list[Line]:
    lines = []
    for attempt in range(1, attempts + 1):
        begin_ms = T0 + 10 * M * (attempt - 1)
        lines.append(job(job_id, "started", begin_ms, attempt=attempt, gpu_count=gpus, purchase="spot"))
        lines.append(job(job_id, "failed", begin_ms + 9 * M, attempt=attempt, reason="out_of_memory"))
    return lines


def test_a_retry_loop_names_attempts_reasons_and_what_was_lost() -> None:
    told = sentences(*failing("run-1", 3), job("other", "queued", T0 + 3 * HOUR_MS))
    assert told["retry_loop", "firing"] == (
        "run-1 breaks off again and again: 3 attempts (up to number 3) failed within 20 min (out_of_memory x3), the last"
        " at 2024-01-01 00:29:00 UTC, $4.32 of work lost; it costs $14.40/h while that goes on: stop it or remove the reason"
    )
    assert told["retry_loop", "resolved"] == (
        "run-1 has not broken off for an hour, or is done; from 2024-01-01 00:29:00 UTC for 1 h"
    )


def test_a_loss_is_named_where_it_decided() -> None:
    told = sentences(*failing("run-1", 2, gpus=64), job("other", "queued", T0 + HOUR_MS))
    assert ", $34.56 of work lost; it costs $115.20/h" in told["retry_loop", "firing"]


def test_another_purchase_is_named_with_both_rates() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=8, purchase="spot"),
        job("run-1", "preempted", T0 + 20 * M, reason="spot_reclaim"),
        job("run-1", "started", T0 + 21 * M, attempt=2, purchase="on_demand"),
        job("run-1", "completed", T0 + 40 * M, attempt=2),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert told["price_basis", "firing"].startswith(
        "run-1 pays a higher price than before: attempt 2 pays on_demand instead of spot, $4.10 per GPU-hour instead of"
        " $1.80 (2.3x); it costs $32.80/h now: move it back, or declare what you expect; 8 GPUs"
    )
    assert told["price_basis", "resolved"].startswith(
        "run-1 no longer pays a higher price than its attempt before; from "
    )


def test_traffic_names_the_flow_that_costs_most() -> None:
    ways = {"path": "cross_region", "region": "eu\nwest", "dst_region": "us\u202eeast"}
    told = sentences(
        job("run\n1", "started", T0, gpu_count=2, purchase="spot"),
        network("run\n1", T0 + 30 * M, M, bytes=10**11, **ways),
        network("run\n1", T0 + 30 * M, M, bytes=10**9, path="cross_region", region="eu", dst_region="us"),
        job("other", "queued", T0 + 3 * HOUR_MS),
    )
    assert told["traffic", "firing"].startswith(
        "run\\n1 pays more for traffic than for computing: $9.09 in 1 h against $1.80 for everything else,"
        " network cross_region eu\\nwest -> us\\u202eeast alone $9.00; it goes on at that rate: keep the data where the job runs; since"
    )
    assert "no longer pays more for traffic than for computing; it paid $" in told["traffic", "resolved"]


def test_a_runaway_names_its_deadline_or_since_when_it_is_billed() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=1, purchase="spot", deadline_ms=T0 + 30 * M),
        job("run-1", "completed", T0 + 40 * M),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert told["runaway_length", "firing"] == (
        "run-1 runs too long: at its deadline, 2024-01-01 00:30:00 UTC; billed since 2024-01-01 00:00:00 UTC, for 30 min; it"
        " costs $1.80/h until it ends: stop it, set a later deadline, or publish its end if it is over; 1 GPU"
    )
    week = sentences(
        job("run-1", "started", T0, gpu_count=1, purchase="spot"), job("o", "queued", T0 + 169 * HOUR_MS)
    )
    assert (
        "runs too long: billed since 2024-01-01 00:00:00 UTC, for 7 d; it costs"
        in week["runaway_length", "firing"]
    )


def test_unpriced_says_what_has_no_price() -> None:
    moved = network("run-1", T0 + 5 * M, M, bytes=10**9, path="internet")
    run = job("run-1", "started", T0, gpu_count=1, purchase="spot")
    later = job("other", "queued", T0 + HOUR_MS)
    assert sentences(run, moved, later)["unpriced", "firing"].startswith(
        "run-1 has traffic without a price, its cost"
    )
    run = job("run-1", "started", T0, gpu_count=1, purchase="reserved")
    assert sentences(run, later)["unpriced", "firing"].startswith(
        "run-1 has GPU-time without a price, its cost"
    )


def test_idle_gpus_say_how_many_and_how_little() -> None:
    def told(util: float) -> str:
        samples = [
            gpu("run-1", T0 + minute * M, M, {"0": util, "1": util}, id=f"s{minute}")
            for minute in range(1, 45)
        ]
        start = job("run-1", "started", T0, gpu_count=2, purchase="spot")
        return sentences(start, *samples, job("other", "queued", T0 + HOUR_MS))["idle_gpus", "firing"]

    assert told(0.0).startswith(
        "run-1 leaves its GPUs idle: the sampled time of 2 GPUs shows no work in 30 min; it costs $3.60/h while that goes on:"
    )
    assert "the sampled time of 2 GPUs was 5.0 % productive in 30 min" in told(0.05)


def test_silence_says_for_how_long() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=1, purchase="spot"),
        job("run-1", "heartbeat", T0 + M),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert (
        "sent neither a heartbeat nor a sample for 10 min: its end event may be lost"
        in told["silent_job", "firing"]
    )


def test_a_rule_that_is_switched_off_says_so() -> None:
    off = {
        "kind": "rule",
        "name": "retry_loop",
        "enabled": False,
        "time_ms": T0 + HOUR_MS,
        "source": "r",
        "id": "1",
    }
    told = sentences(*failing("run-1", 3), Line("controls", off), job("other", "queued", T0 + 2 * HOUR_MS))
    assert told["retry_loop", "resolved"].startswith(
        "the rule retry_loop does not apply to run-1 any more; from "
    )
