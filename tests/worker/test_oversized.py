"""The rule `oversized`: it compares a job with similar ones, soon after its start, and is over when the job is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOBS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.rows import alerts_table
from streams.engine.rules.oversized import FirstRate, History, judged_ms
from streams.engine.rules.similar_jobs import similarities_of
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS


def begin(world: World, job_id: str, minute: int, usd: float, minutes: int = 120, **fields: Any) -> None:
    """A job that costs so many dollars an hour from a minute after T0 on."""
    start_ms = T0 + minute * M
    names = {"team": "vision", "owner": "ada", **fields}
    world.put(JOBS, job_id=job_id, state="running", started=at(start_ms), **names)

    def costs(ms: int) -> Decimal:
        return Decimal(round(usd * 10**9 * ms / HOUR_MS)).scaleb(-9)

    for number in range(min(minutes, 7)):
        instant = at(start_ms + number * M)
        world.put(JOB_MINUTES, job_id=job_id, minute=instant, component="gpu", cost_usd=costs(M), quantity=1)
    for hour_ms in range(start_ms // HOUR_MS * HOUR_MS, start_ms + minutes * M, HOUR_MS):
        ms = min(start_ms + minutes * M, hour_ms + HOUR_MS) - max(start_ms, hour_ms)
        money = {"gpu_cost_usd": costs(ms), "wall_clock_ms": ms}
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour_ms), **money)


def usual(world: World, *, jobs: int = 10, usd: float = 10, name: str = "test", **fields: str) -> None:
    for number in range(jobs):
        begin(world, f"{name}-{number}", number, usd, minutes=30, **fields)


def test_a_job_that_begins_large_is_told_within_eleven_minutes(world: World) -> None:
    usual(world)
    begin(world, "test-large-7", 64, 60, minutes=100)
    begin(world, "test-71", 66, 49)
    begin(world, "test-72", 66, 60)
    begin(world, "train-8", 66, 60, team="nlp")
    changes = world.look(5)
    # No job is named like "test-large-7" before: its team's jobs count.
    assert sorted((each.changed_ms - T0) // M for each in changes) == [70, 75, 240, 300]
    assert told(changes) == {
        "test-large-7": [("firing", 70), ("resolved", 240)],
        "test-72": [("firing", 75), ("resolved", 300)],
    }
    alert = next(each for each in changes if each.subject_name == "test-72")
    assert alert.ratio == pytest.approx(6)
    assert alert.summary == (
        "test-72 began at $60/h, 6.0x the $10/h usual for jobs named test; if unintended, stop it and ask for fewer GPUs,"
        " else $388 more by 19:00 UTC"
    )
    works(world, alert)


def told(changes: list[Alert]) -> dict[str, list[tuple[str, int]]]:
    """By job, each status and its minute after T0."""
    found: dict[str, list[tuple[str, int]]] = {}
    for each in changes:
        assert each.rule == "oversized"
        found.setdefault(each.subject_name, []).append((each.status, (each.changed_ms - T0) // M))
    return found


def test_short_looks_and_a_new_owner_tell_the_same(world: World) -> None:
    usual(world)
    begin(world, "test-72", 66, 60)
    changes = [each for _ in range(60) for each in world.look(1 / 12)]
    assert told(changes) == {"test-72": [("firing", 75), ("resolved", 300)]}
    world.memory = KnownAlerts(world.store)  # another owner, before anything was stored
    world.since_ms = T0 + 70 * M
    assert told(world.look(1 / 12)) == {"test-72": [("firing", 75)]}
    world.store.insert(ALERTS, alerts_table(changes[:1], 0, 1), "stored")
    world.memory = KnownAlerts(world.store)
    world.since_ms = T0 + 70 * M
    assert told(world.look(4)) == {"test-72": [("resolved", 300)]}


def test_a_rule_that_is_off_or_wider_says_nothing_and_ends_what_fires(world: World) -> None:
    usual(world)
    begin(world, "test-72", 66, 60)
    assert told(world.look(1.5, ("rule", "oversized", {"thresholds": {"factor": 7}}))) == {}
    world.since_ms = T0
    assert told(world.look(1.5, ("rule", "oversized", {"thresholds": {"jobs": 11}}))) == {}
    world.since_ms = T0
    assert told(world.look(1.5)) == {"test-72": [("firing", 75)]}
    assert told(world.look(1, ("rule", "oversized", {"enabled": False}))) == {"test-72": [("resolved", 120)]}


def test_what_was_declared_or_planned_is_expected(world: World) -> None:
    usual(world)
    begin(world, "test-80", 66, 60, declared_usd_per_hour=Decimal(50))
    begin(world, "test-81", 66, 60, declared_usd_per_hour=Decimal("49.99"))
    begin(world, "test-82", 66, 60, cluster="c1")
    begin(world, "test-83", 66, 60)
    plans = [("planned", f"p{name}", {**match, "usd_per_hour": 50}) for name, match in enumerate(
        ({"job_id": "test-82"}, {"cluster": "c2", "job_id": "test-83"})
    )]  # fmt: skip
    found = told(world.look(1.5, *plans))
    assert found == {"test-81": [("firing", 75)], "test-83": [("firing", 75)]}


def rates(*usd: float, experiment: str = "", name: str = "test", hour: int = 0) -> list[FirstRate]:
    began_ms = T0 + hour * HOUR_MS
    return [
        FirstRate(f"{name}-{number}", "vision", experiment, began_ms, round(each * 1e9))
        for number, each in enumerate(usd)
    ]


def exceeds(
    usd: float, history: list[FirstRate], job_id: str = "test-99", experiment: str = ""
) -> str | None:
    """What similar jobs have in common whose usual rates a job of hour 5 exceeds."""
    nano = round(usd * 1e9)
    job = FirstRate(job_id, "vision", experiment, T0 + 5 * HOUR_MS, nano)
    found = History(history).usual(job, 10)
    return found.similarity.by if found is not None and found.exceeded_by(nano, 5) else None


def test_a_job_is_compared_with_its_narrowest_similarity_with_a_history() -> None:
    small, large = rates(*[10] * 10), rates(*[500] * 10, name="train", experiment="sft")
    assert exceeds(50, [*small, *large]) == "name"
    assert exceeds(49, [*small, *large]) is None
    assert exceeds(2500, [*small, *large], "other-1", "sft") == "experiment"
    assert exceeds(501, [*small, *large], "train-99") is None
    assert exceeds(51, rates(*[10] * 10), "other-1") == "team"
    assert exceeds(51, rates(*[10] * 9)) is None


def test_a_job_whose_own_kind_has_a_history_is_not_compared_with_its_team() -> None:
    team = rates(*[10] * 10)
    assert exceeds(500, [*team, *rates(400, name="weekly")], "weekly-9") == "team"
    assert exceeds(500, [*team, *rates(400, 410, name="weekly")], "weekly-9") is None
    assert exceeds(500, [*team, *rates(400, 410, experiment="w", name="x")], "y", "w") is None


def test_three_jobs_of_a_kind_that_comes_each_day_are_a_history() -> None:
    days = [each for day in (1, 2, 3) for each in rates(40, name=f"nightly-{day}", hour=-24 * day)]
    assert exceeds(200, days, "nightly-9") == "name"
    assert exceeds(199, days, "nightly-9") is None
    assert exceeds(200, days[:2], "nightly-9") is None
    often = [each for hour in (19, 38, 57) for each in rates(40, name=f"nightly-{hour}", hour=-hour)]
    assert exceeds(200, often, "nightly-9") is None


def test_similar_jobs_that_vary_widely_have_no_usual_size() -> None:
    mixed = [1, 2, 4, 8, 8, 8, 16, 32] * 3
    assert exceeds(110, rates(*mixed)) is None
    assert exceeds(127, rates(*mixed)) is None
    assert exceeds(128, rates(*mixed)) == "name"  # half are within a factor 2 of 8: 2^4 x 8
    assert exceeds(60, rates(*[10] * 20, 70)) is None  # it was that large before


def test_only_the_last_jobs_and_a_month_count() -> None:
    old = rates(*[10] * 300, name="test", hour=-31 * 24)
    assert exceeds(60, old) is None
    recent = rates(*[10] * 300, name="test", hour=-29 * 24)
    assert exceeds(60, recent) == "name"
    assert exceeds(60, [*recent, *rates(*[50] * 200, name="test", hour=1)]) is None
    assert exceeds(60, rates(*[10] * 10, hour=5)) is None  # not those of its own hour


@pytest.mark.parametrize(
    ("job_id", "name"),
    [
        ("test-12", "test"),
        ("vit-pretrain-x7f2k", "vit-pretrain"),
        ("llama3-70b-sft-12", "llama3-70b-sft"),
        ("nightly/2026-06-01_0", "nightly"),
        ("train", "train"),
        ("0f3e", "0f3e"),
        ("-7", None),
    ],
)
def test_similarity_by_name_leaves_numbers_and_hashes_at_the_end_out(job_id: str, name: str | None) -> None:
    similar = list(similarities_of(job_id, "vision", ""))
    assert [each.name for each in similar if each.by == "name"] == ([] if name is None else [name])


def test_a_job_is_judged_when_five_whole_minutes_are_over() -> None:
    minutes = {0: 10, 59_999: 10, 4 * M: 10, 4 * M + 1: 10, 5 * M: 15, 9 * M: 15}
    for started, minute in minutes.items():
        assert judged_ms(T0 + started) == T0 + minute * M
