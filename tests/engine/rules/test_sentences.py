"""What the alerts about a job say: the cause with its figures, what it costs, what to do, on one line whatever the names."""

from __future__ import annotations

import re

import pytest

from tests.engine.rules.told import M, sentences
from tests.oracle.cases import T0, gpu, job, network, price, storage
from tests.oracle.model import HOUR_MS, Line
from tests.strategies.logs import time_of


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
        "run-1 failed 3 times in 20 min (out_of_memory x3), last attempt 3, $6.48 of work lost; stop it or remove the"
        " reason, else $108 more by 08:00 UTC"
    )
    assert told["retry_loop", "resolved"] == "run-1 has ended; from 00:29 UTC for 1 h"


def test_a_retry_loop_that_saves_most_says_what_goes_on_being_lost() -> None:
    saved = [
        job("run-1", "checkpointed", T0 + (10 * n + 8) * M, attempt=n + 1, id=f"saved{n}") for n in range(3)
    ]
    lines = sorted([*failing("run-1", 3), *saved], key=time_of)
    told = sentences(*lines, job("other", "queued", T0 + 3 * HOUR_MS))
    assert told["retry_loop", "firing"] == (
        "run-1 failed 3 times in 20 min (out_of_memory x3), last attempt 3, $0.7200 of work lost, $2.06/h, as most of it is saved;"
        " stop it or remove the reason"
    )


def test_a_retry_loop_of_a_job_that_goes_on_is_over_an_hour_after_its_last_failure() -> None:
    goes_on = job("run-1", "started", T0 + 31 * M, attempt=4, gpu_count=8, purchase="spot")
    told = sentences(*failing("run-1", 3), goes_on, job("other", "queued", T0 + 3 * HOUR_MS))
    assert told["retry_loop", "resolved"] == "run-1 has not broken off again for long; from 00:29 UTC for 1 h"


def test_a_loss_is_named_where_it_decided() -> None:
    told = sentences(*failing("run-1", 2, gpus=64), job("other", "queued", T0 + HOUR_MS))
    assert "$34.56 of work lost; stop it or remove the reason, else $8" in told["retry_loop", "firing"]


def test_another_purchase_is_named_with_both_rates() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=8, purchase="spot"),
        job("run-1", "preempted", T0 + 20 * M, reason="spot_reclaim"),
        job("run-1", "started", T0 + 21 * M, attempt=2, purchase="on_demand"),
        job("run-1", "completed", T0 + 40 * M, attempt=2),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert told["price_basis", "firing"].startswith(
        "run-1 pays on_demand $4.10 per GPU-h instead of spot $1.80 (2.3x) since attempt 2, $141 more by 08:00 UTC;"
        " move it back or declare it; 8 GPUs"
    )
    assert told["price_basis", "resolved"].startswith("run-1 has ended; from ")


def resumed_on(instance_type: str, usd: str, gpus: int = 64) -> dict[tuple[str, str], str]:
    """What is said of a job that is resumed on another instance type with a licence of so many dollars per GPU-hour."""
    licence = {
        "sku": "nvaie",
        "component": "license",
        "usd": usd,
        "per": "gpu_hour",
        "effective_ms": 0,
        "source": "t",
    }
    licence |= {"id": "licence", "time_ms": T0, "instance_type": "p5-ai"}
    held = {"gpu_count": gpus, "purchase": "on_demand"}
    return sentences(
        Line("prices", licence),
        job("run-1", "started", T0, instance_type="p5", **held),
        job("run-1", "failed", T0 + 20 * M, reason="node_failure"),
        job("run-1", "started", T0 + 21 * M, attempt=2, instance_type=instance_type, **held),
        job("run-1", "completed", T0 + 40 * M, attempt=2),
        job("other", "queued", T0 + HOUR_MS),
    )


def test_another_instance_type_that_costs_more_is_named_with_what_it_adds() -> None:
    told = resumed_on("p5-ai", "1.20")
    assert told["price_basis", "firing"].startswith(
        "run-1 pays p5-ai $5.30 per GPU-h instead of p5 $4.10 (1.3x) since attempt 2, license nvaie $76.80/h, $"
    )


@pytest.mark.parametrize(
    ("instance_type", "usd", "gpus"),
    [("p5", "1.20", 64), ("p5-ai", "0.80", 64), ("p5-ai", "1.20", 8), ("other", "1.20", 64)],
)
def test_the_same_a_little_dearer_or_a_few_dollars_more_is_none(
    instance_type: str, usd: str, gpus: int
) -> None:
    assert "price_basis" not in {rule for rule, _ in resumed_on(instance_type, usd, gpus)}


@pytest.mark.parametrize(
    ("declared", "planned", "until"),
    [
        ("32.8", None, None),
        ("14.4", None, "for 19 min"),  # as the attempt before had it
        (None, "32.8", "for 9 min"),
        (None, "32.7", "for 19 min"),
    ],
)
def test_another_purchase_that_is_declared_or_planned_is_no_alert(
    declared: str | None, planned: str | None, until: str | None
) -> None:
    said = {} if declared is None else {"expected_usd_per_hour": declared}
    plan = {
        "kind": "planned",
        "name": "p",
        "time_ms": T0 + 30 * M,
        "source": "r",
        "id": "1",
        "job_id": "run-1",
    }
    plan |= {"from_ms": T0, "until_ms": T0 + HOUR_MS, "usd_per_hour": planned}
    told = sentences(
        job("run-1", "started", T0, gpu_count=8, purchase="spot"),
        job("run-1", "preempted", T0 + 20 * M, reason="spot_reclaim"),
        job("run-1", "started", T0 + 21 * M, attempt=2, purchase="on_demand", **said),
        *([Line("controls", plan)] if planned else []),
        job("run-1", "completed", T0 + 40 * M, attempt=2),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert ("price_basis" in {rule for rule, _ in told}) is (until is not None)
    if until is not None:
        assert told["price_basis", "resolved"].endswith(until)


def test_traffic_names_the_flow_that_costs_most() -> None:
    ways = {"path": "cross_region", "region": "eu\nwest", "dst_region": "us\u202eeast"}
    told = sentences(
        job("run\n1", "started", T0, gpu_count=2, purchase="spot"),
        network("run\n1", T0 + 90 * M, M, bytes=10**11, **ways),
        network("run\n1", T0 + 90 * M, M, bytes=10**9, path="cross_region", region="eu", dst_region="us"),
        job("other", "queued", T0 + 4 * HOUR_MS),
    )
    assert told["traffic", "firing"].startswith(
        "run\\n1 pays $9.09 for traffic in 1 h, $3.60 for all else: cross_region eu\\nwest -> us\\u202eeast; keep the"
        " data where the job runs, else at least $66 more"
    )
    assert "no longer pays so much for traffic; it paid $4.55 in 1 h, $" in told["traffic", "resolved"]


def test_traffic_that_is_requests_counts_them_and_says_what_to_do_about_requests() -> None:
    put = price("put", "0.005", component="storage", per="thousand_requests", match={"op": "write"})
    lines = [
        put,
        price("get", "0.0004", component="storage", per="thousand_requests", match={"op": "read"}),
        job("run-1", "started", T0, gpu_count=2, purchase="spot"),
        storage("run-1", T0 + 90 * M, 5 * M, "write", requests=2_500_000, storage_class="standard"),
        storage("run-1", T0 + 95 * M, 5 * M, "write", requests=2_500_000, storage_class="standard"),
        storage("run-1", T0 + 90 * M, 5 * M, "read", requests=900_000),
        network("run-1", T0 + 90 * M, M, bytes=10**9, path="cross_region", region="eu", dst_region="us"),
        job("other", "queued", T0 + 4 * HOUR_MS),
    ]
    assert sentences(*lines)["traffic", "firing"].startswith(
        "run-1 pays $25 for traffic in 1 h, $3.60 for all else: 2.5 M PUT requests in 5 min, $12.50 ($150/h); write or"
        " read fewer, larger objects, else at least $"
    )
    more = network(
        "run-1", T0 + 90 * M, M, bytes=4 * 10**11, path="cross_region", region="eu", dst_region="us"
    )
    said = sentences(*lines, more)["traffic", "firing"]
    assert "for all else: cross_region eu -> us; keep the data where the job runs" in said


def test_a_runaway_names_its_deadline_or_since_when_it_is_billed() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=1, purchase="spot", deadline_ms=T0 + 30 * M),
        job("run-1", "completed", T0 + 40 * M),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert told["runaway_length", "firing"] == (
        "run-1 is still billed at its deadline, 00:30 UTC; stop it, set a later deadline, or publish its end, else $14 more by"
        " 08:00 UTC; 1 GPU"
    )
    week = sentences(
        job("run-1", "started", T0, gpu_count=1, purchase="spot"), job("o", "queued", T0 + 169 * HOUR_MS)
    )
    assert (
        "is still billed after 7 d, since 2024-01-01 00:00 UTC; stop it" in week["runaway_length", "firing"]
    )


def test_unpriced_says_what_has_no_price() -> None:
    moved = network("run-1", T0 + 5 * M, M, bytes=10**9, path="internet")
    run = job("run-1", "started", T0, gpu_count=1, purchase="spot")
    later = job("other", "queued", T0 + HOUR_MS)
    assert sentences(run, moved, later)["unpriced", "firing"].startswith(
        "run-1 has traffic without a price, so that"
    )
    run = job("run-1", "started", T0, gpu_count=1, purchase="reserved")
    assert sentences(run, later)["unpriced", "firing"].startswith(
        "run-1 has GPU-time without a price, so that"
    )


def test_idle_gpus_say_how_many_and_how_little() -> None:
    def told(util: float) -> str:
        samples = [
            gpu("run-1", T0 + minute * M, M, {"0": util, "1": util}, id=f"s{minute}")
            for minute in range(1, 150)
        ]
        start = job("run-1", "started", T0, gpu_count=2, purchase="spot")
        return sentences(start, *samples, job("other", "queued", T0 + 3 * HOUR_MS))["idle_gpus", "firing"]

    found = told(0.0)
    assert re.match(
        r"run-1 leaves 2 GPUs idle for 1 h 3\d min( \d+ s)?: 0 % since 00:00 UTC; stop it or", found
    ), found
    assert ": 5 % since 00:00 UTC;" in told(0.05)


def test_silence_says_for_how_long() -> None:
    told = sentences(
        job("run-1", "started", T0, gpu_count=1, purchase="spot"),
        *(job("run-1", "heartbeat", T0 + minute * M) for minute in (1, 2)),
        job("other", "queued", T0 + HOUR_MS),
    )
    assert (
        "is billed as running, but sent no heartbeat or sample for 10 min; its end event may be lost: look at it"
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
    assert told["retry_loop", "resolved"].startswith('run-1 is not judged by "Retry loop" any more; from ')


def test_what_is_stored_is_to_be_deleted() -> None:
    told = sentences(
        price("kept", "0.023", component="storage", per="gib_month", match={"op": "stored"}),
        job("run-1", "started", T0, gpu_count=1, purchase="spot"),
        storage("run-1", T0 + 90 * M, 60 * M, "stored", bytes=8 * 10**15),
        job("other", "queued", T0 + 100 * M),
    )
    assert (
        "storage stored; delete what is no longer needed, or keep fewer checkpoints"
        in told["traffic", "firing"]
    )
