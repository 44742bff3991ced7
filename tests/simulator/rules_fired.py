"""Which rules fire in a seed, by the oracle and an undisturbed run: what the simulator compares is no empty set."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

from tests.oracle.ledger_rules import BY_HOUR
from tests.oracle.model import HOUR_MS, MINUTE_MS
from tests.simulator.check import expected_tables
from tests.simulator.hour_check import costs_of, in_time, of_jobs
from tests.simulator.ledger_check import budget_rules
from tests.simulator.log import Log
from tests.simulator.script import write_script
from tests.simulator.undisturbed import expected_alerts
from tests.simulator.world import EPOCH_MS


def fired(seed: int) -> set[str]:
    """The rules that fire, receipts as `job.ended`."""
    script = write_script(random.Random(seed * 2))
    log = Log(script.writes)
    last_tick_ms = (script.end_ms + MINUTE_MS) // 10_000 * 10_000
    alerts = expected_alerts(script, log, last_tick_ms).values()
    found = {row["rule"] for row in alerts}
    if not script.has_budgets:
        return found
    judged_ms = -(-script.end_ms // MINUTE_MS) * MINUTE_MS
    tables = expected_tables(script, log, judged_ms)
    costs = costs_of(tables, log.said)
    for at_ms in range(-(-EPOCH_MS // HOUR_MS) * HOUR_MS, judged_ms + 1, HOUR_MS):
        found |= {rule for rule, names in in_time(costs, alerts, at_ms).items() if names}
        found |= {rule for rule in ("owner_coverage", "unallocated") if BY_HOUR[rule](costs, at_ms, {})}
    found |= {each.rule for each in of_jobs(log, tables, judged_ms)}
    found |= budget_rules(log, tables, judged_ms)
    ends = (row.state == "completed" for row in tables.jobs.values() if row.owner == "amy")
    return found | ({"job.ended"} if any(ends) else set())


def counted(seeds: Iterable[int]) -> Counter[str]:
    """In how many seeds each fires."""
    return Counter(rule for seed in seeds for rule in fired(seed))
