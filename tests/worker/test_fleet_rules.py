"""The rules across jobs that go by the hour: each holds where it should, tells once, and is over when it no longer holds."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.events import Component, ControlEvent, PriceEvent
from schemas.tables import ALERTS, ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS, PRICES
from schemas.units import Per
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.alerts.rows import alerts_table
from streams.engine.ledger_rules.known_prices import KnownPrices
from streams.engine.ledger_rules.price_jumps import PriceJumps
from streams.engine.reference_log import ReferenceLog
from streams.engine.rules.registry import LEDGER_RULES
from streams.engine.rules.shared_cause import cause_text
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at, opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("fleet"))) as store:
        yield store


class World:
    """Hours written by hand, and a judge of them with one memory."""

    def __init__(self, store: ClickHouseStore) -> None:
        self._store = store
        self._waiting: dict[str, list[dict[str, Any]]] = {}
        self.memory = KnownAlerts(store)
        self.prices = ReferenceLog()
        self.version = 0
        self.since_ms = T0

    def put(self, table: str, **row: Any) -> None:
        self.version += 1
        self._waiting.setdefault(table, []).append({"attempt": 1, **row, "version": self.version})

    @property
    def store(self) -> ClickHouseStore:
        """With all that was put, in one insert of each table."""
        for table, found in self._waiting.items():
            self._store.insert(table, rows(table, *found), f"w:{table}:{found[-1]['version']}")
        self._waiting = {}
        return self._store

    def job(self, job_id: str, hour: int, usd: float, *, lost: float = 0, **fields: Any) -> None:
        """An hour of a job; its names are those of the last call."""
        self.put(JOBS, job_id=job_id, state="running", **{"owner": "ada", "team": "vision", **fields})
        money = {"gpu_cost_usd": Decimal(str(usd)), "lost_cost_usd": Decimal(str(lost))}
        self.put(JOB_HOURS, job_id=job_id, hour=at(T0 + hour * HOUR_MS), wall_clock_ms=HOUR_MS, **money)

    def price(
        self,
        sku: str,
        usd: float,
        minute: int,
        said_minute: int | None = None,
        match: dict[str, str] | None = None,
    ) -> None:
        """A revision that takes effect at a minute, and is said then or at another one."""
        effective_ms, said_ms = (
            T0 + each * MINUTE_MS for each in (minute, minute if said_minute is None else said_minute)
        )
        event = PriceEvent(
            source="t", id=f"{sku}{usd}", time_ms=said_ms, sku=sku, component=Component.gpu,
            usd_nano=round(usd * 10**9), per=Per.gpu_hour, gpus=1, effective_ms=effective_ms, match=match or {},
        )  # fmt: skip
        standing = self.prices.controls
        self.prices.extend([(said_ms, event)], [], self.prices.book.with_events([event]), standing)
        row = {"sku": sku, "usd": Decimal(str(usd)), "per": "gpu_hour"}
        self.put(PRICES, effective=at(effective_ms), time=at(said_ms), **row)

    def node(
        self,
        node: str,
        hour: int,
        usd: float,
        used: float | None = None,
        kind: str = "",
        gpu_milli_ms: int = 8_000,
    ) -> None:
        hour_ms = T0 + hour * HOUR_MS
        money = {"cost_usd": Decimal(str(usd)), "gpu_milli_ms": gpu_milli_ms, "paid_ms": HOUR_MS}
        about = {"team": "infra", "cluster": "c1", "instance_type": kind or node}
        self.put(NODE_HOURS, node=node, hour=at(hour_ms), **about, **money)
        if used is not None:
            minute = {
                "minute": at(hour_ms + MINUTE_MS),
                "cost_usd": Decimal(str(used)),
                "quantity": 1,
                "sku": "s",
            }
            self.put(JOB_MINUTES, job_id="user", node=node, **minute)

    def look(self, hours: float, *controls: tuple[str, str, dict[str, Any]]) -> list[Alert]:
        events = [
            ControlEvent(source="t", id=name, time_ms=1, kind=kind, name=name, value=value)
            for kind, name, value in controls
        ]
        found = Controls.from_events(events)
        assert found.faults == ()
        self.memory.read_firing()
        until_ms = self.since_ms + round(hours * HOUR_MS)
        jumps = PriceJumps(self.prices.view()).between(found, self.since_ms, until_ms)
        books = KnownPrices(self.prices.view()).between(self.since_ms, until_ms)
        judge = FleetJudge(self.store, self.memory)
        changes = judge.judge(found, self.since_ms, until_ms, jumps, books)
        self.memory.stored(changes)
        self.since_ms = until_ms
        return changes

    def keep(self, changes: list[Alert]) -> None:
        """Store these rows of alerts, as a worker does before it judges on."""
        for each in changes:
            self.version += 1
            self.store.insert(ALERTS, alerts_table([each], 0, self.version), f"told:{self.version}")


@pytest.fixture
def world(shared: ClickHouseStore) -> World:
    empty(shared.target)
    return World(shared)


def said(changes: list[Alert], rule: str) -> list[tuple[str, str, int]]:
    """(subject, status, hours after T0) of a rule's changes."""
    return [
        (each.subject_name, each.status, (each.changed_ms - T0) // HOUR_MS)
        for each in changes
        if each.rule == rule
    ]


def works(world: World, alert: Alert) -> None:
    """The evidence is SQL that runs, and the sentence is one line."""
    world.store.ask(alert.evidence_sql)
    assert "\n" not in alert.summary


def test_a_team_above_its_limit_is_told_until_it_is_below(world: World) -> None:
    for hour, usd in enumerate((50, 120, 130, 50)):
        world.job("one", hour, usd)
        world.job("other", hour, 80, team="nlp")
    limit = (
        "rule",
        "vision-limit",
        {"rule": "team_burn", "team": "vision", "thresholds": {"usd_per_hour": 100}},
    )
    changes = world.look(4, limit)
    assert said(changes, "team_burn") == [("vision", "firing", 2), ("vision", "resolved", 4)]
    (first, _) = [each for each in changes if each.rule == "team_burn"]
    assert first.summary == (
        "team vision spent $120 in an hour; its limit is $100/h (rule vision-limit); shrink or move jobs,"
        " or raise it, else $960 more by 20:00 UTC"
    )
    works(world, first)
    share = ("rule", "share", {"rule": "team_burn", "team": "nlp", "thresholds": {"share_ratio": 0.5}})
    world.since_ms = T0
    assert said(world.look(1, share), "team_burn") == [("nlp", "firing", 1)]


def broken(
    world: World, job_id: str, attempt: int, hour: int, usd: float, lost: float, state: str = "failed"
) -> None:
    """An attempt of an hour that broke off at its end."""
    world.put(JOBS, job_id=job_id, state="running", team="vision")
    ended = at(T0 + (hour + 1) * HOUR_MS - 1)
    began = at(T0 + hour * HOUR_MS)
    world.put(ATTEMPTS, job_id=job_id, attempt=attempt, state=state, started=began, ended=ended)
    money = {"gpu_cost_usd": Decimal(str(usd)), "lost_cost_usd": Decimal(str(lost))}
    start = {"hour": at(T0 + hour * HOUR_MS), "wall_clock_ms": HOUR_MS}
    world.put(JOB_HOURS, job_id=job_id, attempt=attempt, **start, **money)


def test_retry_overhead_needs_three_attempts_and_ten_dollars(world: World) -> None:
    for hour in range(3):
        broken(world, "loop", hour + 1, hour, 9, 5)
        broken(world, "cheap", hour + 1, hour, 9, 3)
        broken(world, "large", hour + 1, hour, 90, 5)
        broken(world, "clean", hour + 1, hour, 20, 0)
    broken(world, "once", 1, 0, 100, 100, "preempted")
    for hour in range(1, 3):
        world.put(JOB_HOURS, job_id="once", attempt=2, hour=at(T0 + hour * HOUR_MS), gpu_cost_usd=Decimal(9))
    world.put(JOB_HOURS, job_id="loop", attempt=4, hour=at(T0 + 3 * HOUR_MS), gpu_cost_usd=Decimal(200))
    changes = world.look(4)
    assert said(changes, "retry_overhead") == [("loop", "firing", 3), ("loop", "resolved", 4)]
    alert = next(each for each in changes if each.rule == "retry_overhead")
    assert alert.summary == (
        "loop has lost $15.00 of $27.00 (56 %) to 3 attempts that failed or were preempted; checkpoint more often,"
        " or find out why they end"
    )
    works(world, alert)
    world.since_ms = T0
    world.memory = KnownAlerts(world.store)
    once = ("rule", "once", {"rule": "retry_overhead", "thresholds": {"attempts": 1, "least_usd": 9}})
    opened = [each[:2] for each in said(world.look(1, once), "retry_overhead")]
    assert opened == [("once", "firing")]


@pytest.mark.parametrize(("later_usd", "over"), [(270, None), (276, 4)])
def test_retry_overhead_ends_where_clearly_less_is_lost(
    world: World, later_usd: int, over: int | None
) -> None:
    for hour in range(3):
        broken(world, "chain", hour + 1, hour, 33, 10)
    start = {"hour": at(T0 + 3 * HOUR_MS), "wall_clock_ms": HOUR_MS, "gpu_cost_usd": Decimal(later_usd)}
    world.put(JOB_HOURS, job_id="chain", attempt=4, **start)
    ends = [] if over is None else [("chain", "resolved", over)]
    assert said(world.look(4), "retry_overhead") == [("chain", "firing", 3), *ends]


def test_retry_overhead_goes_on_in_hours_without_cost(world: World) -> None:
    names = ("paused", "better", "done", "looped")
    for job_id in names:
        for attempt in (1, 2, 3):
            broken(world, job_id, attempt, 0, 10, 10, "preempted")
    paid = {"gpu_cost_usd": Decimal(9), "wall_clock_ms": HOUR_MS, "attempt": 4}
    world.put(JOB_HOURS, job_id="paused", hour=at(T0 + 5 * HOUR_MS), **paid)
    world.put(JOB_HOURS, job_id="better", hour=at(T0 + 5 * HOUR_MS), **paid | {"gpu_cost_usd": Decimal(900)})
    done = {"started": at(T0 + HOUR_MS), "ended": at(T0 + HOUR_MS + 1)}
    world.put(ATTEMPTS, job_id="done", attempt=4, state="completed", **done)
    loop = {"alert_id": "al_1", "rule": "retry_loop", "subject_kind": "job", "subject_name": "looped"}
    world.put(ALERTS, **loop, started=at(T0 + 2 * HOUR_MS), resolved=at(T0 + 4 * HOUR_MS))
    changes = world.look(3) + world.look(1) + world.look(36)
    assert sorted(said(changes, "retry_overhead")) == [
        ("better", "firing", 1),
        ("better", "resolved", 6),  # it cost more, and 10 % were not lost any more
        ("done", "firing", 1),
        ("done", "resolved", 2),
        ("looped", "firing", 1),
        ("looped", "resolved", 3),
        ("paused", "firing", 1),
        ("paused", "resolved", 30),
    ]


def test_an_alert_about_retries_does_not_outlast_its_rule_or_its_rows(world: World) -> None:
    for attempt in (1, 2, 3):
        broken(world, "paused", attempt, 0, 10, 10, "preempted")
    assert said(world.look(2), "retry_overhead") == [("paused", "firing", 1)]
    off = ("rule", "off", {"rule": "retry_overhead", "enabled": False})
    assert said(world.look(1, off), "retry_overhead") == [("paused", "resolved", 3)]
    for attempt in (1, 2, 3):
        broken(world, "paused", attempt, 3, 10, 10, "preempted")
    assert said(world.look(2), "retry_overhead") == [("paused", "firing", 4)]
    world.since_ms = T0 + 60 * HOUR_MS  # nobody judged for so long
    assert said(world.look(1), "retry_overhead") == [("paused", "resolved", 61)]


def test_what_an_attempt_loses_is_not_known_before_it_breaks_off(world: World) -> None:
    for attempt in (1, 2, 3):
        broken(world, "long", attempt, 0, 10, 10)
    ended = at(T0 + 3 * HOUR_MS - 1)
    world.put(ATTEMPTS, job_id="long", attempt=3, state="preempted", started=at(T0), ended=ended)
    for hour in (1, 2):
        money = {"gpu_cost_usd": Decimal(10), "lost_cost_usd": Decimal(10)}
        world.put(JOB_HOURS, job_id="long", attempt=3, hour=at(T0 + hour * HOUR_MS), **money)
    changes = world.look(3)
    assert said(changes, "retry_overhead") == [("long", "firing", 3)]
    assert [each.cost_nano for each in changes if each.rule == "retry_overhead"] == [50 * 10**9]


def test_gpu_time_without_a_price_is_not_idle(world: World) -> None:
    for hour in range(7):
        world.node("unpriced", hour, 5, used=0)
        held = {"minute": at(T0 + hour * HOUR_MS), "unit": "gpu_milli_ms", "sku": ""}
        world.put(JOB_MINUTES, job_id="half", node="unpriced", quantity=4_000 if hour else 8_000, **held)
    changes = world.look(7)
    assert said(changes, "forgotten_node") == []
    # The other half of the node's GPU-time is idle from the second hour on.
    assert said(changes, "unallocated") == [("nodes", "firing", 2)]
    (alert,) = [each for each in changes if each.rule == "unallocated"]
    assert alert.cost_nano == 2_500_000_000


def test_retry_overhead_says_nothing_of_what_a_retry_loop_has_told(world: World) -> None:
    for attempt in (1, 2, 3):
        broken(world, "loop", attempt, 0, 20, 20)
    for hour in range(1, 5):
        world.put(JOB_HOURS, job_id="loop", attempt=4, hour=at(T0 + hour * HOUR_MS), gpu_cost_usd=Decimal(9))
    for attempt in (5, 6, 7):
        broken(world, "loop", attempt, 3, 20, 20)
    page = {"alert_id": "al_1", "rule": "retry_loop", "subject_kind": "job", "subject_name": "loop"}
    world.put(ALERTS, **page, started=at(T0 + HOUR_MS - 10_000), resolved=at(T0 + 2 * HOUR_MS + 10_000))
    world.put(ALERTS, **page | {"alert_id": "al_2", "subject_name": "another"}, started=at(T0))
    changes = world.look(5)
    # It stood in the hours that end at 1, 2 and 3, and had named three attempts: three others broke off after it.
    assert said(changes, "retry_overhead") == [("loop", "firing", 4)]
    (first,) = (change for change in changes if change.rule == "retry_overhead")
    assert "has lost $60.00 of $147.00 (41 %) to 3 attempts" in first.summary


def test_cost_without_an_owner(world: World) -> None:
    world.job("owned", 0, 94)
    world.job("unowned", 0, 6, owner="")
    world.job("owned", 1, 96)
    world.job("unowned", 1, 4, owner="")
    changes = world.look(2)
    assert said(changes, "owner_coverage") == [("owners", "firing", 1), ("owners", "resolved", 2)]
    works(world, changes[0])


@pytest.mark.parametrize("before", ["paid", "nothing", "not paid", "not paid any more"])
def test_a_burst_of_new_nodes(world: World, before: str) -> None:
    if before in ("paid", "not paid any more"):
        world.node("old", -1, 5)
        _ = world.store  # written, so that what comes next is another version of the row
    if before.startswith("not paid"):
        world.put(NODE_HOURS, node="old", hour=at(T0 - HOUR_MS))
    for number in range(12):
        world.put(
            NODE_HOURS,
            node=f"n{number}",
            hour=at(T0),
            cluster="c",
            instance_type="p5",
            paid_ms=HOUR_MS,
            gpu_milli_ms=0,
        )
    changes = world.look(2)
    if before != "paid":  # the fleet comes up
        assert said(changes, "provisioning_burst") == []
        return
    assert said(changes, "provisioning_burst") == [("c/p5", "firing", 1), ("c/p5", "resolved", 2)]
    works(world, next(each for each in changes if each.rule == "provisioning_burst"))


def test_a_price_that_jumps_is_told_for_an_hour(world: World) -> None:
    for minute, (sku, usd) in enumerate(
        (("h100", 2), ("h100", 6.5), ("a100", 3), ("a100", 0.9), ("l4", 1), ("l4", 2.9))
    ):
        world.price(sku, usd, minute)
    changes = [each for each in world.look(3) if each.rule == "price_jump"]
    hour = HOUR_MS // MINUTE_MS
    assert [(each.subject_name, each.status, (each.changed_ms - T0) // MINUTE_MS) for each in changes] == [
        ("h100", "firing", 2), ("a100", "firing", 4), ("h100", "resolved", hour + 2), ("a100", "resolved", hour + 4)
    ]  # fmt: skip
    works(world, changes[0])


def test_a_price_that_is_corrected_a_minute_later_has_jumped(world: World) -> None:
    """The correction has the same effective time, and nobody knew of it when the minute ended."""
    world.price("a100", 2, 0)
    world.price("a100", 15, 10)
    world.price("a100", 2.5, 10)
    world.price("h100", 2, 0)
    world.price("h100", 20, 10)
    world.price("h100", 2.5, 10, said_minute=11)
    assert [(each.subject_name, each.status, each.changed_ms - T0) for each in world.look(3) if each.rule == "price_jump"] == [
        ("h100", "firing", 11 * MINUTE_MS), ("h100", "resolved", 71 * MINUTE_MS)
    ]  # fmt: skip


def test_a_price_that_takes_effect_later_jumps_then(world: World) -> None:
    world.price("h100", 2, 0)
    world.price("h100", 20, 130, said_minute=5)
    jumps = [each for each in world.look(4) if each.rule == "price_jump"]
    assert [(each.subject_name, each.status, each.changed_ms - T0) for each in jumps] == [
        ("h100", "firing", 131 * MINUTE_MS), ("h100", "resolved", 191 * MINUTE_MS)
    ]  # fmt: skip


def test_a_dearer_price_that_jobs_pay_is_told_with_what_it_adds(world: World) -> None:
    """By 1.5 times and more; by less, a spot price, or paid by two jobs only: nothing."""
    skus: tuple[tuple[str, int, float, float, dict[str, str]], ...] = (
        ("p", 3, 20, 40.0, {}),
        ("q", 3, 2, 2.9, {}),
        ("r", 3, 2, 4.0, {"purchase": "spot"}),
        ("s", 2, 2, 4.0, {}),
    )
    for sku, jobs, before, after, match in skus:
        world.price(sku, before, 0, match=match)
        world.price(sku, after, 70, match=match)
        for number in range(jobs):
            name, usd = f"{sku}-job-{number}", Decimal("0.5") + number
            world.put(JOBS, job_id=name, state="running", owner=name)
            for minute in range(60, 71):
                row = {
                    "quantity": 1,
                    "sku": sku,
                    "price_usd": Decimal(before),
                    "cost_usd": usd,
                    "component": "gpu",
                }
                world.put(JOB_MINUTES, job_id=name, minute=at(T0 + minute * MINUTE_MS), **row)
    changes = [each for each in world.look(3) if each.rule == "price_jump"]
    first, last = changes
    assert (first.subject_name, first.severity, first.started_ms - T0) == ("p", "page", 71 * MINUTE_MS)
    assert last.changed_ms - T0 == 131 * MINUTE_MS
    # 0.5 + 1.5 + 2.5 dollars a minute, and as much again.
    assert first.opened_nano_per_hour == 270 * 10**9
    assert "2.0x: 3 jobs pay $270/h more (p-job-2, p-job-1, p-job-0)" in first.summary
    assert first.shared_cause == cause_text("price", "p")
    works(world, first)


def test_a_record_turns_a_rule_off_or_changes_it_and_a_silence_covers_it(world: World) -> None:
    world.job("unowned", 0, 6, owner="")
    off = ("rule", "owner_coverage", {"enabled": False})
    assert said(world.look(1, off), "owner_coverage") == []
    world.since_ms = T0
    page = ("rule", "owner_coverage", {"severity": "page", "thresholds": {"owned_ratio": 0.5}})
    silence = ("silence", "s", {"rule": "owner_coverage"})
    (alert,) = [each for each in world.look(1, page, silence) if each.rule == "owner_coverage"]
    assert (alert.severity, alert.silenced) == ("page", True)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("unallocated", {"team": "vision"}, "takes no match fields"),
        ("team_burn", {"cluster": "c"}, "team_burn matches on"),
        ("team_burn", {"thresholds": {"usd": 1}}, "has no such threshold"),
        ("oversized", {"thresholds": {"factor": 0}}, "expected a number from"),
        ("oversized", {"thresholds": 5}, "expected an object"),
        ("price_jump", {"enabled": "no"}, "expected true or false"),
        ("price_jump", {"severity": "loud"}, "expected one of page, ticket"),
    ],
)
def test_a_record_that_cannot_be_meant_has_no_effect(name: str, value: dict[str, Any], words: str) -> None:
    event = ControlEvent(source="t", id="1", time_ms=1, kind="rule", name=name, value=value)
    (fault,) = Controls.from_events([event]).faults
    assert words in fault.detail
    assert Controls.from_events([event]).fleet_rules == ()


def test_the_same_hours_again_change_nothing_and_a_new_owner_goes_on(world: World) -> None:
    for hour in range(3):
        world.job("unowned", hour, 6, owner="")
    (opened_alert,) = [each for each in world.look(1) if each.rule == "owner_coverage"]
    world.since_ms = T0
    assert said(world.look(1), "owner_coverage") == []
    from schemas.tables import ALERTS
    from streams.engine.alerts.rows import alerts_table

    world.store.insert(ALERTS, alerts_table([opened_alert], 0, 1), "stored")
    world.memory = KnownAlerts(world.store)
    assert said(world.look(2), "owner_coverage") == []


def test_every_rule_has_settings() -> None:
    for rule, known in LEDGER_RULES.items():
        assert settings_of(rule, []).thresholds.keys() == known.thresholds.keys()
