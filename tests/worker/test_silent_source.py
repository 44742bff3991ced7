"""The rule `silent_source`: one alert for each collector that ceased to report, and the plain judge of the same records."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.source_table import SOURCES
from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.ledger_rules.source_silences import SourceRecordTime, silence_changes, silences
from streams.engine.rules.formatting import SENTENCE_AT_MOST
from streams.engine.rules.rule import margins_of
from streams.engine.rules.silent_source import RULE
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from tests.notify.scripted_sender import run
from tests.oracle.sources import silent_source
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
DAY_MS = 24 * HOUR_MS


def reports(world: World, name: str, *minutes: float, **fields: Any) -> None:
    """Records of a source at these minutes; it was understood nothing wrong."""
    for minute in minutes:
        world.version += 1
        about = {"name": name, "offset": world.version, "time": at(T0 + round(minute * M)), "polls": 60}
        world.put(SOURCES, **about, **{"entry_class": "metered", "entries": 10, **fields})


def forgets(world: World, name: str, minute: float) -> None:
    reports(world, name, minute, removed=True, entries=0)


def look(world: World, hours: float, *controls: Any) -> list[tuple[str, str, int]]:
    """(subject, status, minutes after T0) of what changes."""
    return told(world.look(hours, *controls), RULE.name)


def test_a_collector_that_died_is_told_until_it_reports_again(world: World) -> None:
    reports(world, "slurm", 5.5, 65.5, 125.5, 400.2)
    reports(world, "ray", *range(3, 900, 60))
    changes = world.look(9, ("operator", "sources", {"owner": "infra"}))
    alert, over = (each for each in changes if each.rule == RULE.name)
    assert (alert.status, (alert.changed_ms - T0) // M) == ("firing", 306)
    assert (over.status, (over.changed_ms - T0) // M) == ("resolved", 401)
    assert (alert.severity, alert.subject_kind, alert.subject_name, alert.owner) == (
        "ticket",
        "source",
        "slurm",
        "infra",
    )
    assert alert.summary == (
        "slurm: silent since 12:05 UTC, it used to report every 1 h; look at its process and its right to write,"
        " or if it is gone for good: trainfare sources --forget NAME"
    )
    assert over.summary == "over after 1 h 35 min: slurm: silent since 12:05 UTC, it used to report every 1 h"
    assert alert.ratio == pytest.approx(180.5 / 60)
    assert [(each.value, each.threshold) for each in margins_of(alert.margins)] == [
        (3, 3),
        (pytest.approx(180.5 / 60), 3),
    ]
    works(world, alert)
    rows = [*world.store.ask(alert.evidence_sql).rows()]
    assert [(row[2], row[3], row[4]) for row in rows] == [(60, 10, False)] * 3


def test_one_that_reports_each_day_is_silent_after_three_days(world: World) -> None:
    reports(world, "bill-export", 0, 24 * 60, 48 * 60)
    assert look(world, 200) == [("bill-export", "firing", 5 * 24 * 60)]


def test_one_that_seldom_reports_is_never_silent(world: World) -> None:
    reports(world, "weekly", 0, 7 * 24 * 60, 14 * 24 * 60)
    assert look(world, 40 * 24) == []


def test_what_was_read_by_hand_lists_of_prices_and_collectors_of_a_node_are_not_followed(
    world: World,
) -> None:
    reports(world, "by-hand", 5, 6)
    reports(world, "prices/aws", 5, 65, 125, 185)
    reports(world, "nvidia-smi@node-7 (write_token)", 5, 65, 125)
    reports(world, "slurm", 5, 65, 125)
    assert look(world, 12) == [("slurm", "firing", 305)]


def test_one_that_is_forgotten_is_over_and_counts_from_its_next_record_on(world: World) -> None:
    reports(world, "slurm", 5, 65, 125)
    assert look(world, 6) == [("slurm", "firing", 305)]
    forgets(world, "slurm", 400)
    assert look(world, 6) == [("slurm", "resolved", 401)]
    reports(world, "slurm", 800, 860)
    assert look(world, 24) == []
    reports(world, "slurm", 2_200)
    assert look(world, 48) == [("slurm", "firing", 2_200 + 3 * 700)]


def test_after_a_week_nobody_needs_it(world: World) -> None:
    reports(world, "slurm", 5, 65, 125)
    assert look(world, 6) == [("slurm", "firing", 305)]
    assert look(world, 7 * 24) == [("slurm", "resolved", 7 * 24 * 60 + 125)]
    assert look(world, 7 * 24) == []


def test_a_long_history_counts_by_its_last_records(world: World) -> None:
    reports(world, "slurm", *range(0, 60 * 24 * 10, 60 * 24))
    base = 60 * 24 * 10
    reports(world, "slurm", *range(base, base + 60 * 12, 60))
    world.since_ms = T0 + (base + 60 * 11) * M
    assert look(world, 12) == [("slurm", "firing", base + 60 * 14)]


def test_what_it_reported_before_a_pause_of_a_week_says_how_often_it_does(world: World) -> None:
    again = 7 * 24 * 60 + 600
    reports(world, "slurm", *range(0, 600, 60), again)
    world.since_ms = T0 + (again + 60) * M
    assert look(world, 3) == [("slurm", "firing", again + 180)]


def test_it_can_be_switched_off_and_told_later(world: World) -> None:
    reports(world, "slurm", 0, 60, 120)
    off = ("rule", "off", {"rule": RULE.name, "enabled": False})
    assert look(world, 6, off) == []
    six = ("rule", "six", {"rule": RULE.name, "thresholds": {"hours": 6}})
    assert look(world, 3, six) == [("slurm", "firing", 480)]
    assert look(world, 1, off) == [("slurm", "resolved", 541)]
    assert look(world, 1) == [("slurm", "firing", 601)]


def test_a_record_that_is_stored_late_ends_it(world: World) -> None:
    reports(world, "slurm", 0, 60, 120)
    assert look(world, 6) == [("slurm", "firing", 300)]
    reports(world, "slurm", 250)
    assert look(world, 2) == [("slurm", "resolved", 361), ("slurm", "firing", 430)]


def test_another_owner_who_judges_again_tells_nothing_twice(world: World) -> None:
    reports(world, "slurm", 0, 60, 120, 400, 420)
    assert look(world, 12) == [
        ("slurm", "firing", 300),
        ("slurm", "resolved", 401),
        ("slurm", "firing", 420 + 180),
    ]
    world.since_ms = T0
    assert look(world, 12) == []
    world.since_ms = T0
    reports(world, "slurm", 800)
    assert look(world, 14) == [("slurm", "resolved", 801)]


@pytest.mark.parametrize("name", ["s" * 256, "a\u202eb\nc", "'; DROP TABLE sources; --"])
def test_any_name_makes_a_sentence_and_evidence(world: World, name: str) -> None:
    reports(world, name, 0, 60.01, 120)
    (change,) = (each for each in world.look(30) if each.rule == RULE.name)
    assert len(change.summary) <= SENTENCE_AT_MOST
    assert change.summary.endswith("trainfare sources --forget NAME")
    works(world, change)
    assert len([*world.store.ask(change.evidence_sql).rows()]) == 3


# -- where nothing is metered, and where something is not stored ---------------------------------------------


def test_a_worker_that_was_away_tells_what_ceased_meanwhile(shared: ClickHouseStore) -> None:
    """Nothing was ever metered there; the minutes between are judged as those of a worker that never stopped."""
    empty(shared.target)

    async def scenario() -> None:
        clock = ManualClock(T0 + 200 * M)
        put = World(shared)
        reports(put, "slurm", 0, 60, 120)
        reports(put, "ray", 0, 60, 120, 400)
        assert put.store is shared
        await Life(shared, clock).step()
        clock.advance(10 * HOUR_MS)
        life = Life(shared, clock, generation=2)
        await life.step()
        clock.advance(2 * HOUR_MS)
        await life.step()
        rows = shared.select(ALERTS).to_pylist()
        assert sorted(
            (row["subject_name"], row["status"], row["started"], row["resolved"]) for row in rows
        ) == [
            ("ray", "firing", at(T0 + 400 * M + 3 * HOUR_MS), None),
            ("ray", "resolved", at(T0 + 300 * M), at(T0 + 401 * M)),
            ("slurm", "firing", at(T0 + 300 * M), None),
        ]

    run(scenario())


@pytest.mark.parametrize("is_metered", [False, True])
def test_a_record_that_is_read_and_not_stored_is_waited_for(
    shared: ClickHouseStore, is_metered: bool
) -> None:
    """A worker that begins has read all records, and stores them a little later."""
    empty(shared.target)

    async def scenario() -> None:
        clock, waiting = ManualClock(T0 + 400 * M), [T0 + 180 * M]
        put = World(shared)
        reports(put, "slurm", 0, 60, 120)
        assert put.store is shared
        ledger = Ledger(shared)
        life = Life(shared, clock, begun_ms=T0, unstored_ms=lambda: waiting[0] if waiting else None)
        if is_metered:
            ledger.books(T0 + 400 * M)
        await life.step()
        reports(put, "slurm", 180, 240, 300, 360)
        assert put.store is shared
        waiting.clear()
        await life.step()
        assert shared.select(ALERTS).num_rows == 0
        clock.advance(4 * HOUR_MS)
        if is_metered:
            ledger.books(T0 + 640 * M)
        await life.step()
        (row,) = shared.select(ALERTS).to_pylist()
        assert (row["rule"], row["started"]) == (RULE.name, at(T0 + 540 * M))

    run(scenario())


# -- exact, however the log is cut ---------------------------------------------------------------------------


def story(chance: random.Random, hours: int) -> list[SourceRecordTime]:
    """Records of one source: each hour, or more often, or seldom, with silences, and now and then forgotten."""
    found, at_ms = list[SourceRecordTime](), chance.randrange(2 * HOUR_MS)
    while at_ms < hours * HOUR_MS:
        found.append(SourceRecordTime(at_ms, chance.random() < 0.07))
        usual = chance.choice((0, 1_000, 5 * M, HOUR_MS, HOUR_MS, HOUR_MS, HOUR_MS, 2 * HOUR_MS))
        at_ms += usual if chance.random() < 0.8 else chance.randrange(1, 24 * HOUR_MS)
        at_ms += chance.choice((0, 0, chance.randrange(M)))
    return found


def cuts_of(chance: random.Random, end_ms: int, most: int) -> list[int]:
    inner = {chance.randrange(1, end_ms // M) * M for _ in range(chance.randrange(1, most))}
    return [0, *sorted(inner), end_ms]


def judged(records: list[SourceRecordTime], cuts: list[int], hours: int) -> list[Alert]:
    """The changes, judged span by span."""
    of = settings_of(RULE.name, ())._replace(thresholds={"hours": float(hours)})
    firing: list[Alert] = []
    changes: list[Alert] = []
    for since_ms, until_ms in pairwise(cuts):
        seen = [each for each in records if each.at_ms < until_ms]
        found = silences("s", seen, of.thresholds)
        for each in silence_changes(found, firing, since_ms, until_ms, of):
            changes.append(each)
            firing = [each] if each.status == FIRING else []
    return changes


@settings(PROFILE, max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32), hours=st.sampled_from((1, 3, 5)))
def test_any_cut_gives_the_alerts_of_the_plain_words(seed: int, hours: int) -> None:
    chance = random.Random(seed)
    records, end_ms = story(chance, 72), 84 * HOUR_MS
    cut = judged(records, cuts_of(chance, end_ms, 40), hours)
    plain = [*silent_source(records, end_ms, hours)]
    assert [(each.changed_ms, str(each.status)) for each in cut] == plain
    assert judged(records, [0, end_ms], hours) == cut


def test_the_stored_rows_give_the_alerts_of_the_plain_words(world: World) -> None:
    """Days of several sources, judged in spans of all lengths: what is read of the store is enough."""
    chance = random.Random(7)
    sources = {f"s{number}": story(chance, 11 * 24) for number in range(4)}
    end_ms = 20 * DAY_MS
    for name, records in sources.items():
        for each in records:
            gone: dict[str, Any] = {"removed": True} if each.is_forgotten else {}
            reports(world, name, each.at_ms / M, **gone)
    judge = FleetJudge(world.store, world.memory)
    changes: list[Alert] = []
    for since_ms, until_ms in pairwise(cuts_of(chance, end_ms, 30)):
        found = judge.judge_sources(
            Controls.from_events([]), T0 + since_ms, T0 + until_ms, ("silent_source",)
        )
        world.memory.stored(found)
        changes += found
    plain = [
        (at_ms, name, status)
        for name, records in sources.items()
        for at_ms, status in silent_source(records, end_ms)
    ]
    assert len(plain) > 20
    assert sorted((each.changed_ms - T0, each.subject_name, str(each.status)) for each in changes) == sorted(
        plain
    )
