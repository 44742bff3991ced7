"""The rule `clock_ahead`: one alert for each source whose times run ahead of the log, and the plain judge of the same minutes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.clock_table import RECORDS_AHEAD
from schemas.tables import JOB_HOURS, JOB_USAGE_MINUTES, JOBS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.rules.clock_ahead import RULE, AheadMinute, AheadRun, margins, run_at
from streams.worker.ledger_judges.clock_ahead_judge import ClockAheadJudge
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from tests.oracle.clocks import clock_ahead
from tests.property.profile import EXAMPLES, PROFILE
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS


def comes_ahead(
    world: World, minutes: Sequence[int], source: str = "dcgm", node: str = "", shard: int = 0, **fields: Any
) -> None:
    """Records of a source are ahead in these minutes."""
    counts = {"records": 4, "refused": 4, "most_ahead_ms": 40 * M, **fields}
    for minute in minutes:
        about = {
            "minute": at(T0 + minute * M),
            "source": source,
            "node": node,
            "topic": "gpu",
            "shard": shard,
        }
        world.put(RECORDS_AHEAD, **(about | counts))


def test_a_source_is_told_once_until_it_goes_with_the_log_again(world: World) -> None:
    comes_ahead(world, range(1, 30), node="n1")
    comes_ahead(world, range(10, 30), node="n2", shard=1, most_ahead_ms=41 * M)
    comes_ahead(world, [2, 40], source="once")
    changes = world.look(3, ("operator", "sources", {"owner": "infra"}))
    assert told(changes, RULE.name) == [("dcgm", "firing", 5), ("dcgm", "resolved", 120)]
    alert = next(each for each in changes if each.rule == RULE.name)
    assert (alert.severity, alert.subject_kind, alert.owner, alert.ratio) == (
        "ticket",
        "source",
        "infra",
        8.0,
    )
    assert alert.summary == (
        "dcgm: 16 records since 10:01 UTC are up to 40 min ahead of the log, refused; synchronise the clock of n1 (NTP, chrony)"
    )
    works(world, alert)
    assert list(world.store.ask(alert.evidence_sql).rows())


def test_the_sentence_names_the_nodes_that_are_most_ahead_and_what_became_of_the_records(
    world: World,
) -> None:
    for number in range(5):
        ahead: dict[str, Any] = {"most_ahead_ms": (10 + number) * M, "refused": 0}
        comes_ahead(world, range(3), node=f"n{number}", shard=number, **ahead)
    comes_ahead(world, range(3), source="mixed", refused=1)
    comes_ahead(world, range(3), source="sdk/ada", refused=0)
    said = [each.summary for each in world.look(0.2) if each.rule == RULE.name]
    assert said == [
        "dcgm: 60 records since 10:00 UTC are up to 14 min ahead of the log, metered as they say; synchronise the clock of n4, n3 and 3 more (NTP, chrony)",
        "mixed: 12 records since 10:00 UTC are up to 40 min ahead of the log, 3 refused; synchronise the clock of its host (NTP, chrony)",
        "sdk/ada: 12 records since 10:00 UTC are up to 40 min ahead of the log, metered as they say; synchronise the clock of its host (NTP, chrony)",
    ]


def test_a_source_of_which_nothing_is_metered_is_told_all_the_same(world: World) -> None:
    """Every record of it is refused, so there is no ledger to judge."""
    comes_ahead(world, range(1, 8))
    judge = FleetJudge(world.store, world.memory)
    changes = judge.judge_sources(Controls.from_events([]), T0 + 4 * M, T0 + 5 * M)
    assert told(changes, RULE.name) == [("dcgm", "firing", 5)]


def test_how_many_minutes_it_takes_can_be_set_and_the_rule_switched_off(world: World) -> None:
    off = ("rule", "off", {"rule": RULE.name, "enabled": False})
    comes_ahead(world, [1, 3, 4, 9, 11])
    assert told(world.look(0.1, off), RULE.name) == []
    five = ("rule", "five", {"rule": RULE.name, "thresholds": {"minutes": 5}})
    assert told(world.look(0.9, five), RULE.name) == [("dcgm", "firing", 15)]
    assert told(world.look(0.1, off), RULE.name) == [("dcgm", "resolved", 65)]


def test_its_margin_is_the_number_of_minutes() -> None:
    run = run_at([AheadMinute(each * M, 1, 1, 6 * M) for each in (0, 200, 201)], 210 * M)
    (margin,) = margins({"minutes": 3}, AheadRun("s", run))
    assert (margin.value, margin.threshold, margin.share) == (2.0, 3, 2 / 3)


class Minutes:
    """A store that has only the minutes in which records of sources were ahead."""

    def __init__(self, minutes: Mapping[str, set[int]]) -> None:
        self._minutes = minutes

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        if "SELECT node" in sql:
            return pa.table({"node": pa.array([], pa.string())})
        bound: Mapping[str, Any] = parameters or {}
        rows = [
            {"source": source, "minute_ms": minute, "all_records": 1, "all_refused": 1, "ahead_ms": 6 * M}
            for source, minutes in sorted(self._minutes.items())
            for minute in sorted(minutes)
            if bound["from_ms"] <= minute < bound["to_ms"]
        ]
        return pa.Table.from_pylist(rows)


def judged(minutes: Mapping[str, set[int]], cuts: Sequence[int], least: int) -> list[Alert]:
    """The changes, judged span by span."""
    judge, of = ClockAheadJudge(Minutes(minutes)), settings_of(RULE.name, ())
    of = of._replace(thresholds={"minutes": float(least)})
    firing: dict[str, Alert] = {}
    found: list[Alert] = []
    for since_ms, until_ms in pairwise(cuts):
        for each in judge.judge(of, [*firing.values()], since_ms, until_ms):
            found.append(each)
            if each.status == FIRING:
                firing[each.subject_name] = each
            else:
                del firing[each.subject_name]
    return found


@settings(PROFILE, max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32), least=st.sampled_from((1, 2, 3, 10)))
def test_any_cut_gives_the_alerts_of_the_plain_words(seed: int, least: int) -> None:
    chance = random.Random(seed)
    end_ms = 24 * 60 * M
    minutes: dict[str, set[int]] = {}
    for source in ("a", "b"):
        minute = chance.randrange(60)
        while minute < 23 * 60:
            minutes.setdefault(source, set()).add(minute * M)
            minute += chance.choice((1, 1, 2, 30, 60, 88, 89, 90, 91, 92, 94, 95, 96, 200))
    cuts = sorted({chance.randrange(1, 24 * 60) * M for _ in range(chance.randrange(40))})
    cut = judged(minutes, [0, *cuts, end_ms], least)
    plain = [
        (at_ms, source, status)
        for source, of_source in minutes.items()
        for at_ms, status in clock_ahead(of_source, end_ms, least)
    ]
    assert sorted((each.changed_ms, each.subject_name, str(each.status)) for each in cut) == sorted(plain)
    assert sorted(map(str, judged(minutes, [0, end_ms], least))) == sorted(map(str, cut))


def hour_without_samples(world: World, *, sampled_on: str = "n1") -> None:
    """A job whose samples end, beside one whose samples go on."""
    for job_id, sampled in (("lost", 0), ("well", 1)):
        world.put(JOBS, job_id=job_id, state="running", owner="ada", team="vision")
        for hour in range(3):
            time = {"gpu_milli_ms": 8000 * HOUR_MS, "sampled_gpu_ms": 8 * HOUR_MS * (sampled or hour == 0)}
            about = {"cluster": "c1", "wall_clock_ms": HOUR_MS, "gpu_cost_usd": Decimal(16)}
            world.put(JOB_HOURS, job_id=job_id, hour=at(T0 + hour * HOUR_MS), **about, **time)
    world.put(JOB_USAGE_MINUTES, job_id="lost", node=sampled_on, minute=at(T0 + 59 * M), sampled_gpu_s=480)


def test_a_job_whose_samples_come_ahead_has_one_cause(world: World) -> None:
    hour_without_samples(world)
    comes_ahead(world, range(60, 180), node="n1")
    changes = world.look(3)
    assert told(changes, RULE.name) == [("dcgm", "firing", 65)]
    assert told(changes, "unsampled_gpus") == []


def test_the_samples_of_a_clock_that_was_set_right_come_late_where_others_were_metered(world: World) -> None:
    hour_without_samples(world)
    comes_ahead(world, range(60, 120), node="n1", refused=0, most_ahead_ms=30 * M)
    assert told(world.look(3), "unsampled_gpus") == []


@pytest.mark.parametrize(
    ("node", "minutes", "about"),
    [("n2", 120, {}), ("n1", 2, {}), ("n1", 120, {"topic": "jobs"}), ("n1", 60, {})],
    ids=["another node", "too few to be told", "no samples", "over before"],
)
def test_what_no_clock_explains_is_told(world: World, node: str, minutes: int, about: dict[str, Any]) -> None:
    hour_without_samples(world)
    comes_ahead(world, range(60, 60 + minutes), node=node, **about)
    assert [each[:2] for each in told(world.look(3), "unsampled_gpus")] == [("lost", "firing")]
