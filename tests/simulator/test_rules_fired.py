"""Each rule fires in some seeds: a comparison of what never fires would say nothing."""

from __future__ import annotations

from streams.engine.rules.registry import BUDGET_NAMES, LEDGER_RULES, NAMES
from tests.simulator.rules_fired import counted

SEEDS = range(100)
#: In how many of the seeds at least, where that is more than one.
LEAST = {
    "unpriced": 50, "silent_job": 15, "runaway_length": 10, "burn_fast": 10, "retry_loop": 10, "traffic": 5,
    "price_basis": 5, "burn_sustained": 3,
    "team_burn": 15, "forgotten_node": 15, "unallocated": 10, "owner_coverage": 10, "unusual_length": 8,
    "price_jump": 5, "retry_overhead": 5, "oversized": 2, "unsampled_gpus": 2,
    "budget_used": 15, "budget_forecast": 10, "job.ended": 2,
}  # fmt: skip
#: The simulated store has no answer to what these ask: their oracles are in tests/worker.
UNANSWERED = {
    "double_held", "after_node", "empty_group", "metered_twice", "straggler", "inefficient", "resubmit_loop", "spinning",
    "team_ceiling", "clock_ahead", "missing_price", "not_understood", "silent_source",
    "incident",  # it needs three jobs of one cause: tests/engine/ledger_rules
}  # fmt: skip
#: They fire after 50 min or more, longer than jobs are sampled here: tests/property/test_job_rules.py.
LATE = {"idle_gpus", "stalled", "slow_progress"}


def test_each_rule_fires_in_some_of_the_default_seeds() -> None:
    known = {*NAMES, *LEDGER_RULES, *BUDGET_NAMES, "job.ended"}
    assert {*LEAST, *UNANSWERED, *LATE} <= known
    counts = counted(SEEDS)
    lacking = {rule: counts[rule] for rule in known - UNANSWERED - LATE if counts[rule] < LEAST.get(rule, 1)}
    assert not lacking, (
        f"fire in so few of {len(SEEDS)} seeds: {lacking}; add settings under which they hold soon to `rule()` of "
        "tests/simulator/values.py, or say here why they cannot"
    )
