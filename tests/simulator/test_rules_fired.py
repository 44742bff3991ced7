"""Each rule fires in some seeds: a comparison of what never fires would say nothing."""

from __future__ import annotations

from streams.engine.rules.registry import LEDGER_RULES, NAMES
from tests.simulator.rules_fired import counted

SEEDS = range(100)
#: In how many of the seeds at least.
LEAST = {
    "unpriced": 50, "silent_job": 15, "runaway_length": 10, "burn_fast": 10, "retry_loop": 10, "traffic": 5,
    "price_basis": 5, "burn_sustained": 3, "burn_drift": 1, "no_checkpoint": 1, "ceiling": 1, "held": 1,
    "team_burn": 15, "forgotten_node": 15, "unallocated": 10, "owner_coverage": 10, "unusual_length": 8,
    "price_jump": 5, "retry_overhead": 5, "provisioning_burst": 1, "oversized": 2, "unsampled_gpus": 2,
    "budget_used": 15, "budget_forecast": 10, "job.ended": 2,
}  # fmt: skip


def test_each_rule_fires_in_some_of_the_default_seeds() -> None:
    # The simulated store has no answer to what these ask: their oracles are in tests/worker.
    known = {*NAMES, *LEDGER_RULES, "budget_used", "budget_forecast", "job.ended"} - {
        "double_held",
        "after_node",
        "empty_group",
        "metered_twice",
        "straggler",
        "inefficient",
        "resubmit_loop",
        "spinning",
        "team_ceiling",
        "clock_ahead",
        "missing_price",
        "not_understood",
        "idle_gpus",  # after 50 min, longer than jobs are sampled here: tests/property/test_job_rules.py
        "stalled",  # as long: likewise
        "incident",  # which needs three jobs of one cause: tests/engine/ledger_rules
    }
    assert set(LEAST) == known
    counts = counted(SEEDS)
    assert {rule: counts[rule] for rule, least in LEAST.items() if counts[rule] < least} == {}
