"""The rule `metered_twice`: one job that two collectors meter under two ids."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.tables import ATTEMPTS, JOB_HOURS, JOBS
from streams.engine.rules.metered_twice import margins
from tests.oracle.nodes_held import FIVE_MINUTES_MS, Place, Seen, metered_twice
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import GPU_MINUTE, holds, nodes, told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
RULE = "metered_twice"


def reported(world: World, job_id: str, minutes: range, *sources: str, gpus: float = 8, **more: Any) -> None:
    """A job on node n0 that these sources report."""
    where = more.pop("on", ("n0",))
    holds(world, job_id, minutes, gpus, *where, **more)
    began = at(T0 + more.get("began", minutes.start) * M)
    world.put(ATTEMPTS, job_id=job_id, started=began, state="running", sources=[*sources])


def test_a_job_under_two_ids_is_one_alert_that_names_both_and_their_sources(world: World) -> None:
    reported(world, "dup", range(120), "own", "slurm", sampled=range(120))
    reported(world, "k8s/ns/dup-0", range(1, 90), "k8s")
    changes = world.look(2)
    assert told(changes, RULE) == [("k8s/ns/dup-0", "firing", 10), ("k8s/ns/dup-0", "resolved", 95)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.owner, alert.ratio, alert.usd_nano_per_hour) == (
        "ticket", "of-k8s/ns/dup-0", 8.0, 19_920_000_000,
    )  # fmt: skip
    assert alert.summary == (
        "dup (own, slurm) and k8s/ns/dup-0 (k8s) both meter 8 GPUs of n0, $20/h twice; let one leave them out, else $156 more by 18:00 UTC"
    )
    works(world, alert)


def test_a_job_of_another_team_is_counted_and_not_named(world: World) -> None:
    reported(world, "dup", range(120), "own", sampled=range(120), team="speech")
    reported(world, "k8s/ns/dup-0", range(1, 90), "k8s")
    alerts = [each for each in world.look(2) if each.rule == RULE]
    assert alerts[0].summary == (
        "k8s/ns/dup-0 (k8s) and 1 job of another team (own) both meter 8 GPUs of n0, $20/h twice; let one leave them out, else $156 more by 18:00 UTC"
    )
    for each in alerts:
        assert "'dup'" not in each.evidence_sql
        assert "dup (own" not in each.summary
    found = world.store.ask(alerts[0].evidence_sql).records()  # for whoever sees all
    assert {row["job_id"] for row in found} == {"dup", "k8s/ns/dup-0"}


def test_it_is_about_the_one_without_samples(world: World) -> None:
    reported(world, "first", range(60), "slurm")
    reported(world, "second", range(2, 60), "k8s", sampled=range(60))
    assert told(world.look(1), RULE) == [("first", "firing", 10)]


def test_jobs_that_share_a_node_are_none(world: World) -> None:
    reported(world, "one", range(60), "slurm", gpus=4)
    reported(world, "two", range(60), "slurm", gpus=4)  # as far as is known they have all of it
    nodes(world, range(60), 8, "n1")
    reported(world, "three", range(60), "slurm", gpus=4, on=("n1",))
    reported(world, "four", range(60), "k8s", gpus=4, on=("n1",))  # there is room for both
    assert told(world.look(1), RULE) == []


def test_jobs_that_hold_other_gpus_or_begin_apart_are_none(world: World) -> None:
    reported(world, "one", range(60), "slurm", on=("n0", "n1"))
    reported(world, "part", range(60), "k8s", on=("n0",))
    reported(world, "fewer", range(60), "ray", gpus=4, on=("n0", "n1"))
    reported(world, "later", range(6, 60), "own", on=("n0", "n1"))
    assert told(world.look(1), RULE) == []


def test_it_goes_on_after_the_first_hour_and_across_looks(world: World) -> None:
    reported(world, "one", range(150), "slurm")
    reported(world, "two", range(150), "k8s")
    assert told(world.look(0.5), RULE) == [("one", "firing", 10)]
    assert told(world.look(1.5), RULE) == []
    assert told(world.look(1), RULE) == [("one", "resolved", 155)]


def test_a_node_that_is_held_twice_by_one_job_is_told_once(world: World) -> None:
    nodes(world, range(60))
    reported(world, "one", range(60), "slurm")
    reported(world, "two", range(1, 60), "k8s")
    changes = world.look(1)
    assert told(changes, RULE) == [("two", "firing", 10)]
    assert told(changes) == []
    off = ("rule", "off", {"rule": RULE, "enabled": False})
    changes = world.look(0.25, off)
    assert told(changes, RULE) == [("two", "resolved", 65)]


def test_a_job_without_samples_is_told_of_by_itself(world: World) -> None:
    for job_id, sampled in (("one", 60), ("two", 0), ("another", 60)):
        world.put(
            JOB_HOURS, job_id=job_id, hour=at(T0), wall_clock_ms=HOUR_MS, gpu_milli_ms=60 * 8 * GPU_MINUTE,
            sampled_gpu_ms=sampled * 8 * MINUTE_MS, cluster="c1",
        )  # fmt: skip
        world.put(JOBS, job_id=job_id, state="running", started=at(T0))
    assert told(world.look(1), "unsampled_gpus") == [("two", "firing", 60)]


def test_a_job_without_samples_that_is_another_one_is_told_once(world: World) -> None:
    reported(world, "one", range(60), "slurm", sampled=range(60))
    reported(world, "two", range(60), "k8s")
    for job_id, sampled in (("one", 60), ("two", 0), ("another", 60)):
        world.put(
            JOB_HOURS, job_id=job_id, hour=at(T0), wall_clock_ms=HOUR_MS, gpu_milli_ms=60 * 8 * GPU_MINUTE,
            sampled_gpu_ms=sampled * 8 * MINUTE_MS, cluster="c1",
        )  # fmt: skip
    changes = world.look(1)
    assert told(changes, RULE) == [("two", "firing", 10)]
    assert told(changes, "unsampled_gpus") == []


def test_the_margins_are_those_of_the_thresholds() -> None:
    assert [each.share for each in margins({"minutes": 8}, 4)] == [0.5]


LENGTH = 90
drawn_jobs = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.integers(5, LENGTH),
        st.sampled_from([1, 2]),
        st.sampled_from(["a", "b", "c", "ab", ""]),
    ),
    min_size=2,
    max_size=4,
)


@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn_jobs, st.integers(0, 3), st.lists(st.integers(1, LENGTH - 1), max_size=2, unique=True))
def test_the_first_alerts_are_those_of_the_plain_judge(
    shared: Any, jobs: list[tuple[int, int, int, str]], size: int, cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    has: dict[Place, int] = {}
    held: dict[Place, dict[str, int]] = {}
    if size:
        nodes(world, range(LENGTH), size)
        has = {Place("n0", T0 + minute * M): size * GPU_MINUTE for minute in range(LENGTH)}
    for number, (begin, length, gpus, sources) in enumerate(jobs):
        minutes = range(begin, min(begin + length, LENGTH))
        reported(world, f"job-{number}", minutes, *sources, gpus=gpus)
        for minute in minutes:
            held.setdefault(Place("n0", T0 + minute * M), {})[f"job-{number}"] = gpus * GPU_MINUTE
    sources_of = {f"job-{number}": sources for number, (_, _, _, sources) in enumerate(jobs)}
    began = {f"job-{number}": T0 + begin * M for number, (begin, _, _, _) in enumerate(jobs)}
    seen = Seen(has, held, set(), began)
    want: set[str] = set()
    first: int | None = None
    for at_ms in range(T0 + FIVE_MINUTES_MS, T0 + LENGTH * M + 1, FIVE_MINUTES_MS):
        pairs = metered_twice(seen, sources_of, at_ms)
        if pairs and first is None:
            first = (at_ms - T0) // M
            # The later one of each pair; of those that began together the first by name.
            want = {min(pair, key=lambda job: (-began[job], job)) for pair in pairs}
    got: list[tuple[str, str, int]] = []
    for until in [*sorted(cut), LENGTH]:
        got += told(world.look((T0 + until * M - world.since_ms) / HOUR_MS), RULE)
    opened = [minute for _, status, minute in got if status == "firing"]
    assert min(opened, default=None) == first
    assert {job for job, status, minute in got if status == "firing" and minute == first} == want
