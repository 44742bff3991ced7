"""All rules, in the order of evaluation: what is derived from them elsewhere begins here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams.engine.rules import (
    after_node,
    budget_forecast,
    budget_used,
    burn_drift,
    burn_fast,
    burn_sustained,
    ceiling,
    clock_ahead,
    double_held,
    empty_group,
    forgotten_node,
    held,
    idle_gpus,
    incident,
    inefficient,
    metered_twice,
    missing_price,
    no_checkpoint,
    not_understood,
    oversized,
    owner_coverage,
    price_basis,
    price_jump,
    provisioning_burst,
    resubmit_loop,
    retry_loop,
    retry_overhead,
    runaway_length,
    silent_job,
    silent_source,
    slow_progress,
    spinning,
    stalled,
    straggler,
    team_burn,
    team_ceiling,
    traffic,
    unallocated,
    unpriced,
    unsampled_gpus,
    unusual_length,
)
from streams.engine.rules.burn_rule import BurnRule
from streams.engine.rules.job_view import JobRule
from streams.engine.rules.rule import AlertRule, HourlyRule, LedgerRule

BURN_RULES: Final[tuple[BurnRule, ...]] = (burn_fast.RULE, burn_sustained.RULE, burn_drift.RULE)
#: Indexed by the kernel's number of the rule: the first ones are known to it by name, others are facts like any.
JOB_RULES: Final[tuple[JobRule, ...]] = (
    *BURN_RULES,
    unpriced.RULE,
    silent_job.RULE,
    retry_loop.RULE,
    idle_gpus.RULE,
    runaway_length.RULE,
    traffic.RULE,
    price_basis.RULE,
    no_checkpoint.RULE,
    ceiling.RULE,
    held.RULE,
    stalled.RULE,
    slow_progress.RULE,
)
NAMES: Final = tuple(rule.name for rule in JOB_RULES)
WINDOW_MS: Final = tuple(rule.window_ms for rule in JOB_RULES)
#: Rules that are judged on the stored ledger, in the order in which they are listed.
_ON_LEDGER: Final[tuple[LedgerRule, ...]] = (
    team_burn.RULE,
    retry_overhead.RULE,
    unallocated.RULE,
    owner_coverage.RULE,
    forgotten_node.RULE,
    provisioning_burst.RULE,
    oversized.RULE,
    unusual_length.RULE,
    price_jump.RULE,
    unsampled_gpus.RULE,
    missing_price.RULE,
    not_understood.RULE,
    incident.RULE,
    double_held.RULE,
    after_node.RULE,
    empty_group.RULE,
    metered_twice.RULE,
    straggler.RULE,
    inefficient.RULE,
    resubmit_loop.RULE,
    spinning.RULE,
    team_ceiling.RULE,
    clock_ahead.RULE,
    silent_source.RULE,
)
LEDGER_RULES: Final[Mapping[str, LedgerRule]] = {rule.name: rule for rule in _ON_LEDGER}
#: Those of them of which one query finds the hours in which they hold.
HOURLY_RULES: Final = tuple(rule for rule in _ON_LEDGER if isinstance(rule, HourlyRule))
BUDGET_RULES: Final = (budget_used.RULE, budget_forecast.RULE)
BUDGET_NAMES: Final = tuple(rule.name for rule in BUDGET_RULES)
ALL: Final[tuple[AlertRule, ...]] = (*JOB_RULES, *_ON_LEDGER, *BUDGET_RULES)
BY_NAME: Final[Mapping[str, AlertRule]] = {rule.name: rule for rule in ALL}
#: Rules that a planned rate can quiet: those that compare a cost with what was expected.
PLANNED_QUIETS: Final = tuple(rule.name for rule in ALL if rule.planned_quiets)
