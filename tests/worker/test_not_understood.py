"""The rule `not_understood`: one alert for each cause of a source, with an example and what mends it; over when it is gone."""

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
from streams.accounts.causes import REMEDIES
from streams.clock import ManualClock
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.source_causes import READ_BACK_MS, VALID_MS, cause_changes
from streams.engine.rules.formatting import SENTENCE_AT_MOST
from streams.engine.rules.not_understood import SourceCause, SourceState
from tests.notify.scripted_sender import run
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Life, at
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

DAY_MS = 24 * HOUR_MS


def tells(world: World, offset: int, minute: float, *causes: str, name: str = "slurm", **of_all: Any) -> None:
    """A record of a source at a minute: 10 entries metered, 2 of each cause not understood."""
    each = {"name": name, "offset": offset, "time": at(T0 + round(minute * MINUTE_MS)), "polls": 3}
    world.put(SOURCES, **each, entry_class="metered", entries=10)
    for reason in causes:
        more = {"reason": reason, "entries": 2, "example": f"job 7 of {reason}", "standing": True} | of_all
        world.put(SOURCES, **each, entry_class="not_understood", **more)


def look(world: World, minutes: float, *controls: Any) -> list[tuple[str, str, int]]:
    """(subject, status, minutes after T0) of what changes."""
    return [
        (each.subject_name, each.status, (each.changed_ms - T0) // MINUTE_MS)
        for each in world.look(minutes / 60, *controls)
        if each.rule == "not_understood"
    ]


def test_one_alert_for_each_cause_until_it_is_gone(world: World) -> None:
    tells(world, 1, 1.5, "unknown_gres", "no_end")
    tells(world, 2, 3.0, "unknown_gres", name="ray")
    tells(world, 3, 20.2, "no_end")
    changes = world.look(0.5)
    assert [(each.subject_name, each.status, (each.changed_ms - T0) // MINUTE_MS) for each in changes] == [
        ("slurm/no_end", "firing", 2),
        ("slurm/unknown_gres", "firing", 2),
        ("ray/unknown_gres", "firing", 4),
        ("slurm/unknown_gres", "resolved", 21),
    ]
    alert = changes[1]
    assert alert.summary == (
        "slurm: 2 of 14 entries not understood (unknown_gres), first: job 7 of unknown_gres;"
        f" {REMEDIES['unknown_gres']}"
    )
    assert (alert.severity, alert.subject_kind, alert.ratio, alert.cost_nano) == (
        "ticket",
        "source",
        0.142857143,
        0,
    )
    works(world, alert)
    (row,) = world.store.ask(alert.evidence_sql).rows()
    assert row[-1] == REMEDIES["unknown_gres"]
    assert look(world, 30) == []
    tells(world, 4, 70)
    assert look(world, 30) == [("slurm/no_end", "resolved", 71)]


def test_a_record_that_is_stored_late_counts_from_its_own_time_on(world: World) -> None:
    tells(world, 2, 50)
    assert look(world, 60) == []
    tells(world, 1, 10, "no_end")
    assert look(world, 60) == [("slurm/no_end", "firing", 11), ("slurm/no_end", "resolved", 51)]
    assert look(world, 60) == []


def test_a_source_that_says_nothing_for_a_day_is_not_there_any_more(world: World) -> None:
    tells(world, 1, 0, "no_end")
    assert look(world, 60) == [("slurm/no_end", "firing", 1)]
    tells(world, 2, 23 * 60, "no_end")
    assert look(world, 46 * 60) == []
    assert look(world, 60) == [("slurm/no_end", "resolved", 47 * 60 + 1 - 0)]


def test_a_worker_that_was_away_for_days_resolves_what_nobody_says_any_more(world: World) -> None:
    tells(world, 1, 0, "no_end")
    assert look(world, 60) == [("slurm/no_end", "firing", 1)]
    world.since_ms += 5 * DAY_MS
    (change,) = look(world, 60)
    assert change[:2] == ("slurm/no_end", "resolved")


def test_another_owner_who_judges_again_tells_nothing_twice(world: World) -> None:
    tells(world, 1, 5, "no_end", "unknown_gres")
    tells(world, 2, 15, "unknown_gres")
    assert len(look(world, 60)) == 3
    world.since_ms -= HOUR_MS
    assert look(world, 120) == []


def test_the_rule_can_be_switched_off(world: World) -> None:
    off = ("rule", "none", {"rule": "not_understood", "enabled": False})
    tells(world, 1, 5, "no_end")
    assert look(world, 10, off) == []
    assert look(world, 10) == [("slurm/no_end", "firing", 6)]
    assert look(world, 10, off) == [("slurm/no_end", "resolved", 21)]


@pytest.mark.parametrize("name", ["slurm", "s" * 256, "a\u202eb\nc", "'; DROP TABLE sources; --"])
def test_any_name_example_and_reason_makes_a_sentence_and_evidence(world: World, name: str) -> None:
    for offset, reason in enumerate((*REMEDIES, "of_a_newer_version")):
        tells(world, offset, 5, reason, name=f"{offset}{name}", example="")
    changes = world.look(0.5)
    assert len(changes) == len(REMEDIES) + 1
    for each in changes:
        assert len(each.summary) <= SENTENCE_AT_MOST
        works(world, each)
        assert list(world.store.ask(each.evidence_sql).rows())


def test_a_meter_of_which_nothing_is_understood_tells_it_all_the_same(shared: ClickHouseStore) -> None:
    """Nothing was ever metered there, so that no shard has stored up to when figures are complete."""
    empty(shared.target)

    async def scenario() -> None:
        clock = ManualClock(T0 + 10 * MINUTE_MS)
        life = Life(shared, clock)
        put = World(shared)
        tells(put, 1, 5, "no_end")
        assert put.store is shared
        for _ in range(2):
            await life.step()
        assert [each[:3] for each in life.told] == [("not_understood", "slurm/no_end", "firing")]
        tells(put, 2, 15)
        assert put.store is shared
        clock.advance(10 * MINUTE_MS)
        await Life(shared, clock, generation=2).step()
        (row,) = shared.select(ALERTS).to_pylist()
        assert (row["status"], row["resolved"]) == ("resolved", at(T0 + 16 * MINUTE_MS))

    run(scenario())


# -- exact, however the log is cut ---------------------------------------------------------------------------


def plain(told: list[SourceState], until_ms: int) -> list[tuple[int, str, str]]:
    """The changes of each cause, minute by minute, by the words of the page alone."""
    found: list[tuple[int, str, str]] = []
    before: set[str] = set()
    last: dict[str, SourceState] = {}
    for at_ms in range(0, until_ms + 1, MINUTE_MS):
        for each in told:
            if at_ms - MINUTE_MS <= each.at_ms < at_ms:
                last[each.name] = each
        now = {
            f"{each.name}/{reason}"
            for each in last.values()
            if at_ms < (each.at_ms // MINUTE_MS + 1) * MINUTE_MS + VALID_MS
            for reason in each.standing
        }
        found += [(at_ms, subject, "resolved") for subject in sorted(before - now)]
        found += [(at_ms, subject, "firing") for subject in sorted(now - before)]
        before = now
    return sorted(found)


def judged(told: list[SourceState], cuts: list[int]) -> list[Alert]:
    """The changes, judged span by span, with a store that leaves out what it has."""
    firing: dict[str, Alert] = {}
    stored: dict[str, Alert] = {}
    changes: list[Alert] = []
    for since_ms, until_ms in pairwise(cuts):
        seen = [each for each in told if since_ms - READ_BACK_MS <= each.at_ms < until_ms]
        for each in cause_changes(seen, [*firing.values()], since_ms, until_ms, "ticket"):
            row = stored.get(each.alert_id)
            if row is not None and (row.status == each.status or row.changed_ms >= each.changed_ms):
                continue
            stored[each.alert_id] = each
            changes.append(each)
            if each.status == "firing":
                firing[each.subject_name] = each
            else:
                firing.pop(each.subject_name, None)
    return changes


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_any_cut_gives_the_alerts_of_the_plain_words(seed: int) -> None:
    chance = random.Random(seed)
    end_ms = 4 * DAY_MS
    told = [
        SourceState(
            chance.choice(("a", "b")), offset, at_ms, 10,
            {reason: SourceCause(1, "x") for reason in ("no_end", "malformed") if chance.random() < 0.5},
        )
        for offset, at_ms in enumerate(sorted(chance.randrange(end_ms - HOUR_MS) for _ in range(chance.randrange(12))))
    ]  # fmt: skip
    inner = sorted(
        {chance.randrange(1, end_ms // MINUTE_MS) * MINUTE_MS for _ in range(chance.randrange(30))}
    )
    cut = judged(told, [0, *inner, end_ms])
    assert sorted((each.changed_ms, each.subject_name, str(each.status)) for each in cut) == plain(
        told, end_ms
    )
    whole = judged(told, [0, end_ms])
    assert sorted(map(str, whole)) == sorted(map(str, cut))
