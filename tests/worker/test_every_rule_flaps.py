"""Every rule that is judged on the ledger, by the registry: an alert that flaps stays open until an hour of quiet."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import FIRING, RESOLVED, Alert, alert_id, is_change
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.flapping import changed_ms
from streams.engine.rules.registry import ALL, BUDGET_NAMES, LEDGER_RULES, NAMES
from streams.engine.rules.rule import HourlyRule
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.own_rules_judge import OwnRulesJudge
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0
from tests.worker.test_fleet_rules import World, shared, world

__all__ = ["shared", "world"]

M = MINUTE_MS
OWN = "sql/mine"
#: When the rule opened, minutes after T0; it is judged from T0 on.
OPENED = (-100, -90, -80, -50)
KINDS = {
    "incident": "sweep",
    "missing_price": "sku",
    "price_jump": "sku",
    "team_ceiling": "team",
    OWN: "team",
}


def flapping(rule: str) -> Alert:
    """The alert of the fourth opening; nothing in the store says that it holds."""
    known = LEDGER_RULES.get(rule)
    kind = known.kind if isinstance(known, HourlyRule) else KINDS.get(rule, "job")
    openings = tuple(T0 + minute * M for minute in OPENED)
    return Alert(
        alert_id=alert_id(rule, kind, "x", openings[-1]), rule=rule, severity="ticket", status=FIRING, subject_kind=kind,
        subject_name="x", owner="ada", team="x", project="", started_ms=openings[-1], resolved_ms=None, ratio=0, usd_nano_per_hour=10**9,
        expected_nano_per_hour=0, cost_nano=0, window_ms=0, summary="it flaps; look", evidence_sql="SELECT 1", held_ms=openings[-1],
        changed_ms=openings[-1], firings=1, silenced=False, openings=openings, shared_cause='["sweep","x"]' if rule == "incident" else "",
    )  # fmt: skip


def record(rule: str, *, enabled: bool = True) -> list[ControlEvent]:
    if rule == OWN:
        asks: dict[str, object] = {"sql": "SELECT {from}, {to}", "every": "5m"}
        return [ControlEvent("t", "mine", 1, "rule", "mine", asks)] if enabled else []
    value: dict[str, object] = {"rule": rule, "enabled": enabled}
    if rule == "team_ceiling":
        value["thresholds"] = {"usd_per_hour": 1}
    return [ControlEvent("t", "r", 1, "rule", "r", value)] if rule == "team_ceiling" or not enabled else []


def look(
    store: ClickHouseStore, memory: KnownAlerts, controls: list[ControlEvent], since: int, until: int
) -> list[Alert]:
    found = Controls.from_events(controls)
    assert found.faults == ()
    judge = FleetJudge(store, memory)
    changes = judge.judge(found, T0 + since * M, T0 + until * M, (), ())
    memory.stored(changes)
    nothing = dict.fromkeys(("subject_kind", "subject_name", "usd_per_hour", "summary"), ())
    own = OwnRulesJudge(store, memory, lambda _: nothing)
    more = judge.judge_own(own, found, T0 + since * M, T0 + until * M)
    memory.stored(more)
    return [*changes, *more]


def rows_of(world: World, rule: str, step: int) -> list[Alert]:
    empty(world.store.target)
    world.keep([flapping(rule)])
    memory, found = KnownAlerts(world.store), list[Alert]()
    for since in range(0, 120, step):
        changes = look(world.store, memory, record(rule), since, since + step)
        world.keep(changes)
        found += changes
    return found


@pytest.mark.parametrize("rule", [*LEDGER_RULES, OWN])
def test_it_stays_open_for_an_hour_after_it_held_last(world: World, rule: str) -> None:
    quiet, over = rows_of(world, rule, 120)
    assert (quiet.status, is_change(quiet)) == (FIRING, False)
    assert quiet.quiet_ms is not None
    assert T0 < quiet.quiet_ms <= T0 + HOUR_MS
    assert (over.status, over.resolved_ms, over.alert_id) == (
        RESOLVED,
        quiet.quiet_ms + HOUR_MS,
        quiet.alert_id,
    )
    assert changed_ms(over) == over.resolved_ms
    assert rows_of(world, rule, 30) == [quiet, over]


@pytest.mark.parametrize("rule", [*LEDGER_RULES, OWN])
def test_switching_the_rule_off_ends_it_at_once(world: World, rule: str) -> None:
    world.keep([flapping(rule)])
    memory = KnownAlerts(world.store)
    (quiet,) = look(world.store, memory, record(rule), 0, 60)
    memory.stored([replace(quiet, quiet_ms=T0 + 60 * M)])
    (over,) = look(world.store, memory, record(rule, enabled=False), 60, 66)
    assert (over.status, over.resolved_ms) == (RESOLVED, T0 + 65 * M)


def test_there_is_no_other_rule() -> None:
    """Rules of a job's shard: tests/engine/alerts/test_flapping; what a budget has used does not fall, and a forecast comes once a day."""
    assert {rule.name for rule in ALL} == {*NAMES, *LEDGER_RULES, *BUDGET_NAMES}
