"""The rule `team_ceiling`: what the jobs of a team pay together, and the plain judge of the same minutes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.rules.team_ceiling import TeamJob, margins
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from tests.oracle.team_rates import flapping, team_ceiling
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
RULE = "team_ceiling"


def pays(
    world: World, job_id: str, minutes: Sequence[int], usd: float, team: str = "nlp", component: str = "gpu"
) -> None:
    """A job that pays so many dollars a minute."""
    world.put(JOBS, job_id=job_id, state="running", started=at(T0), owner="ada", team=team)
    for hour in sorted({(T0 + minute * M) // HOUR_MS for minute in minutes}):
        world.put(JOB_HOURS, job_id=job_id, hour=at(hour * HOUR_MS), wall_clock_ms=1)
    for minute in minutes:
        row = {"minute": at(T0 + minute * M), "component": component, "unit": "gpu_milli_ms", "quantity": 1}
        world.put(JOB_MINUTES, job_id=job_id, sku="x", cost_usd=Decimal(str(usd)), **row)


def limit(usd: float, **match: str) -> tuple[str, str, dict[str, Any]]:
    return "rule", f"limit{match}", {"rule": RULE, "thresholds": {"usd_per_hour": usd}, **match}


def test_a_team_is_told_within_five_minutes_until_it_pays_less(world: World) -> None:
    pays(world, "first", range(60), 5)
    pays(world, "second", range(20, 40), 4)
    changes = world.look(1, limit(500, team="nlp"))
    assert told(changes, RULE) == [("nlp", "firing", 25), ("nlp", "resolved", 45)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.subject_kind, alert.team, alert.usd_nano_per_hour) == (
        "page",
        "team",
        "nlp",
        540 * 10**9,
    )
    assert alert.summary == (
        "team nlp pays $540/h for 2 jobs (most: first $300/h), over its ceiling of $500/h; stop, shrink or plan them, else $4,095 more by"
        " 18:00 UTC"
    )
    works(world, alert)


def test_nothing_is_looked_at_without_a_record(world: World) -> None:
    pays(world, "large", range(60), 1000)
    assert told(world.look(1), RULE) == []


def test_the_record_of_a_team_counts_instead_of_that_of_all(world: World) -> None:
    pays(world, "a", range(30), 5, "nlp")
    pays(world, "b", range(30), 5, "vision")
    pays(world, "c", range(30), 5, "")
    assert told(world.look(0.5, limit(200), limit(400, team="nlp")), RULE) == [("vision", "firing", 5)]


def test_what_is_planned_and_traffic_do_not_count(world: World) -> None:
    pays(world, "planned", range(30), 5)
    pays(world, "above", range(30), 3, "above")
    pays(world, "moved", range(30), 50, component="network")
    plans = [
        ("planned", job, {"usd_per_hour": usd, "job_id": job, "from_ms": T0, "until_ms": T0 + 9 * HOUR_MS})
        for job, usd in (("planned", "250"), ("above", "149"))
    ]
    assert told(world.look(0.5, limit(100), *plans), RULE) == [("above", "firing", 5)]


def test_what_is_acknowledged_is_not_told_up_to_a_fifth_more_until_that_ends(world: World) -> None:
    pays(world, "first", range(60), 5)
    pays(world, "second", range(20, 30), 1.5)
    known = {"alert_id": "al_x", "team": "nlp", "usd_per_hour": "300", "until_ms": T0 + 40 * M}
    changes = world.look(1, limit(200), ("ack", "al_x", known))
    assert told(changes, RULE) == [
        ("nlp", "firing", 25),  # $390/h
        ("nlp", "resolved", 35),
        ("nlp", "firing", 45),
    ]
    assert changes[1].summary.startswith("acknowledged at $300/h by ")


def test_what_is_acknowledged_of_another_team_changes_nothing(world: World) -> None:
    pays(world, "first", range(30), 5)
    others = {"alert_id": "al_x", "team": "vision", "usd_per_hour": "300", "until_ms": T0 + 9 * HOUR_MS}
    assert told(world.look(0.5, limit(200), ("ack", "al_x", others)), RULE) == [("nlp", "firing", 5)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    jobs = [TeamJob("a", 10**9), TeamJob("b", 5 * 10**9, 5 * 10**9)]
    assert [each.share for each in margins({"usd_per_hour": 2}, jobs)] == [0.5]
    assert [each.share for each in margins({"usd_per_hour": 0}, jobs)] == [None]


drawn = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 40), st.integers(1, 5), st.sampled_from(["nlp", "vision"])),
    min_size=1,
    max_size=5,
)
cuts = st.lists(st.integers(1, 39), max_size=3, unique=True)
limits = st.dictionaries(st.sampled_from(["", "nlp"]), st.sampled_from([100, 300, 500]))


@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn, cuts, limits)
def test_the_alerts_are_those_of_the_plain_judge(
    shared: Any, jobs: list[tuple[int, int, int, str]], cut: list[int], limited: dict[str, int]
) -> None:
    empty(shared.target)
    world = World(shared)
    paid: dict[tuple[str, int], int] = {}
    teams: dict[str, str] = {}
    for number, (first, length, usd, team) in enumerate(jobs):
        minutes = range(first, min(first + length, 40))
        pays(world, f"job-{number}", minutes, usd, team)
        teams[f"job-{number}"] = team
        paid |= {(f"job-{number}", T0 + minute * M): usd * 10**9 for minute in minutes}
    records = [limit(usd, **({"team": team} if team else {})) for team, usd in limited.items()]
    most = {team: usd * 10**9 for team, usd in limited.items()}
    held: dict[str, list[int]] = {}
    for minute in range(5, 41, 5):
        for team in team_ceiling(paid, teams, {}, most, T0 + minute * M):
            held.setdefault(team, []).append(minute)
    want = [(team, *change) for team, instants in held.items() for change in flapping(instants, 40)]
    got: list[tuple[str, str, int]] = []
    for until in [*sorted(cut), 40]:
        got += told(world.look((T0 + until * M - world.since_ms) / HOUR_MS, *records), RULE)
    assert sorted(got) == sorted(want)


def hovers(world: World, above: list[int]) -> None:
    """A team that pays as much as its limit in each of these five minutes, and nothing in others."""
    pays(world, "hovers", [minute for five in above for minute in range(5 * five - 5, 5 * five)], 5)


def seen(
    world: World, cut: list[int], last: int, *more: tuple[str, str, dict[str, Any]]
) -> list[tuple[str, int]]:
    """Its changes in these spans, which are stored between them."""
    found: list[Alert] = []
    for until in [*sorted(cut), last]:
        changes = world.look((T0 + until * M - world.since_ms) / HOUR_MS, limit(300, team="nlp"), *more)
        world.keep(changes)
        found += [each for each in changes if each.rule == RULE and is_change(each)]
    return [(each.status, (each.changed_ms - T0) // M) for each in found]


def test_the_fourth_opening_in_three_hours_stays_open_until_an_hour_of_quiet(world: World) -> None:
    hovers(world, [1, 3, 5, 7, 9, 15, 40])
    changes = world.look(3.5, limit(300, team="nlp"))
    assert told(changes, RULE) == [
        ("nlp", "firing", 5), ("nlp", "resolved", 10),
        ("nlp", "firing", 15), ("nlp", "resolved", 20),
        ("nlp", "firing", 25), ("nlp", "resolved", 30),
        ("nlp", "firing", 35), ("nlp", "resolved", 140),  # it held last at 75
        ("nlp", "firing", 200),  # the fourth since 35, openings that nobody was told of among them
    ]  # fmt: skip
    fires = [each for each in changes if each.rule == RULE and each.status == "firing" and is_change(each)]
    said = [each.summary for each in fires]
    assert [each.endswith("; stays open until quiet for 1 h") for each in said] == [
        False,
        False,
        False,
        True,
        True,
    ]
    over = [each.summary for each in changes if each.rule == RULE and each.status == "resolved"]
    assert not any("quiet" in each or "stop, shrink" in each for each in over)


def test_one_that_flaps_is_over_at_once_where_its_limit_goes_or_somebody_knows(world: World) -> None:
    hovers(world, [1, 3, 5, 7])
    assert seen(world, [], 40)[-1] == ("firing", 35)
    known = {"alert_id": "al_x", "team": "nlp", "usd_per_hour": "300", "until_ms": T0 + 9 * HOUR_MS}
    changes = world.look(5 / 60, limit(300, team="nlp"), ("ack", "al_x", known))
    assert told(changes, RULE) == [("nlp", "resolved", 45)]
    world.memory, world.since_ms = KnownAlerts(world.store), T0 + 40 * M
    off = ("rule", "off", {"rule": RULE, "enabled": False})
    assert told(world.look(5 / 60, off), RULE) == [("nlp", "resolved", 45)]


LAST = 300


@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(
    st.lists(st.integers(1, LAST // 5), min_size=4, max_size=30, unique=True),
    st.lists(st.integers(1, LAST - 1), max_size=6, unique=True),
)
def test_any_cut_of_what_flaps_gives_the_alerts_of_the_plain_judge(
    shared: Any, above: list[int], cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    hovers(world, above)
    assert seen(world, cut, LAST) == flapping([5 * each for each in above], LAST)
