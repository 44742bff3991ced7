"""Hand-worked cases of the oracle's lost work: checkpoints, retries, start-ups, traffic.

Every figure is worked out in the comment beside it.
"""

from __future__ import annotations

from tests.oracle.cases import T0, job, ledger, lost_nano, network, price, total_nano
from tests.oracle.compute import compute
from tests.oracle.model import HOUR_MS

S = 1000
M = 60 * S
PRICE = price("p", "3.6")  # 1 nano-dollar per thousandth of a GPU and ms, so cost = quantity
LICENCE = price("l", "3.6", component="license", per="job_hour")  # 1000 nano-dollars per ms


def test_lost_work_is_from_the_last_checkpoint_to_the_end() -> None:
    tables = compute(
        [
            PRICE,
            LICENCE,
            job("j", "allocated", T0, gpu_count=1),
            job("j", "started", T0 + 2 * S),
            job("j", "checkpointed", T0 + 5 * S),
            job("j", "checkpointed", T0 + 6 * S),
            network("j", T0 + 8 * S, 4 * S, bytes=10),  # 4 s to 8 s; F(6 s) = 5: 5 bytes are lost
            network("j", T0 + 9 * S, 0, bytes=7),  # at an instant inside the lost time
            network("j", T0 + 10 * S, 0, bytes=9),  # at the end: no longer inside [6 s, 10 s)
            job("j", "preempted", T0 + 10 * S),
            job("j", "checkpointed", T0 + 11 * S),  # after the end: no checkpoint
            job("j", "allocated", T0 + 20 * S, attempt=2),
            job("j", "started", T0 + 23 * S, attempt=2),
            job("j", "failed", T0 + 24 * S, attempt=2),
            job("j", "started", T0 + 30 * S, attempt=3),
            job("j", "completed", T0 + 40 * S, attempt=3),
        ]
    )
    lost = {(k.attempt, k.component, k.phase): r.lost_quantity for k, r in tables.ledger.items()}
    assert lost == {
        (1, "gpu", "starting"): 0,  # the lowest-numbered attempt's starting is not lost by itself
        (1, "license", "starting"): 0,
        (1, "gpu", "running"): 4_000_000,
        (1, "license", "running"): 4 * S,
        (1, "network", ""): 5 + 7,
        (2, "gpu", "starting"): 3_000_000,  # starting and failed both cover it: lost once
        (2, "license", "starting"): 3 * S,
        (2, "gpu", "running"): 1_000_000,
        (2, "license", "running"): 1 * S,
        (3, "gpu", "running"): 0,
        (3, "license", "running"): 0,
    }


def test_an_attempt_that_is_superseded_loses_what_it_did_since_its_last_checkpoint() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "started", T0, gpu_count=1),
            job("j", "checkpointed", T0 + 4 * S),
            network("j", T0 + 9 * S, 2 * S, bytes=10),  # 7 s to 9 s
            job("j", "allocated", T0 + 10 * S, attempt=2),  # the first one crashed and nobody said so
            job("j", "started", T0 + 12 * S, attempt=2),
            job("j", "failed", T0 + 15 * S, attempt=2),
        ]
    )
    lost = {(k.attempt, k.component, k.phase): r.lost_quantity for k, r in tables.ledger.items()}
    assert lost == {
        (1, "gpu", "running"): 6_000_000,
        (1, "network", ""): 10,
        (2, "gpu", "starting"): 2_000_000,
        (2, "gpu", "running"): 3_000_000,
    }
    hours = {k.attempt: (r.lost_cost_nano, r.starting_lost_cost_nano) for k, r in tables.hours.items()}
    assert hours == {1: (6_000_000, 0), 2: (5_000_000, 2_000_000)}


def test_the_clock_does_not_end_a_start_up_in_which_traffic_is_lost() -> None:
    lines = [
        PRICE,
        job("j", "failed", T0, gpu_count=1),
        job("j", "allocated", T0 + 1 * S, attempt=2),  # goes on
        network("j", T0 + 9 * S, 0, bytes=5, attempt=2),
    ]
    tables = compute(
        lines, as_of_ms=T0 + 4 * S
    )  # GPU-time is cut at 4 s; the amounts of that start-up are not
    assert {k.component: (r.quantity, r.lost_quantity) for k, r in tables.ledger.items()} == {
        "gpu": (3_000_000, 3_000_000),
        "network": (5, 5),
    }


def test_spot_with_a_retry_against_on_demand() -> None:
    # On demand 10 $/h x 2 h = 20 $. Spot 3 $/h: 1 h, checkpoint at 0:45, reclaimed at 1:00, again 1:15 (6 min of
    # it starting): (1 + 1.25) x 3 = 6.75 $, of which lost 0.25 h + 0.1 h = 0.35 h x 3 = 1.05 $.
    tables = compute(
        [
            price("od", "10", purchase="on_demand"),
            price("spot", "3", purchase="spot"),
            job("a", "started", T0, gpu_count=1, purchase="on_demand"),
            job("a", "completed", T0 + 2 * HOUR_MS),
            job("b", "started", T0, gpu_count=1, purchase="spot"),
            job("b", "checkpointed", T0 + 45 * M),
            job("b", "preempted", T0 + 60 * M, reason="spot_reclaim"),
            job("b", "allocated", T0 + 70 * M, attempt=2),
            job("b", "started", T0 + 76 * M, attempt=2),
            job("b", "completed", T0 + 145 * M, attempt=2),
        ]
    )
    # 120 rows of 10/60 $ (166,666,667 nano each); 135 rows of 3/60 = 0.05 $; 21 lost minutes of 0.05 $.
    assert total_nano(tables, "a") == 120 * 166_666_667
    assert total_nano(tables, "b") == 6_750_000_000
    assert lost_nano(tables, "b") == 1_050_000_000
    assert len(ledger(tables, "b", phase="starting")) == 6
