"""Drawn nodes and jobs on them: the alerts `double_held` and `after_node` are those of the plain judge, in any cut."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.oracle.nodes_held import FIVE_MINUTES_MS, Place, Seen, changes
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0
from tests.worker.test_double_held import GPU_MINUTE, holds, nodes
from tests.worker.test_fleet_rules import World, shared

__all__ = ["shared"]

M = MINUTE_MS
RULES = ("double_held", "after_node")
LENGTH = 40
spans = st.tuples(st.integers(0, 30), st.integers(1, LENGTH)).map(
    lambda each: range(each[0], min(sum(each), LENGTH))
)
drawn_jobs = st.lists(
    st.tuples(spans, st.sampled_from([1, 1, 2, 2.5, 0.5]), st.sampled_from(["n0", "n1"]), spans),
    min_size=1,
    max_size=5,
)
cuts = st.lists(st.integers(1, LENGTH - 1), max_size=3, unique=True)


@example([(range(40), 2, "n0", range(0)), (range(10, 40), 1, "n0", range(0))], [(range(40), 2)], [20])
@example([(range(40), 1, "n0", range(0)), (range(23, 40), 1, "n0", range(0))], [(range(20), 1)], [20])
@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn_jobs, st.lists(st.tuples(spans, st.integers(1, 3)), min_size=1, max_size=4), cuts)
def test_the_alerts_are_those_of_the_plain_judge(
    shared: Any, jobs: list[tuple[range, float, str, range]], there: list[tuple[range, int]], cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    has: dict[Place, int] = {}
    held: dict[Place, dict[str, int]] = {}
    sampled: set[tuple[Place, str]] = set()
    began: dict[str, int] = {}
    for number, (minutes, size) in enumerate(there):
        nodes(world, minutes, size, f"n{number % 2}")
        has |= {Place(f"n{number % 2}", T0 + minute * M): size * GPU_MINUTE for minute in minutes}
    for number, (minutes, gpus, node, seen) in enumerate(jobs):
        name = f"job-{number}"
        holds(world, name, minutes, gpus, node, sampled=seen)
        began[name] = T0 + minutes.start * M
        for minute in minutes:
            place = Place(node, T0 + minute * M)
            held.setdefault(place, {})[name] = round(gpus * GPU_MINUTE)
            sampled |= {(place, name)} if minute in seen else set()
    log = Seen(has, held, sampled, began)
    want = changes(log, range(T0 + FIVE_MINUTES_MS, T0 + LENGTH * M + 1, FIVE_MINUTES_MS))
    got: list[tuple[str, str, str, int]] = []
    for until in [*sorted(cut), LENGTH]:
        got += [
            (each.rule, each.subject_name, each.status, each.changed_ms)
            for each in world.look((T0 + until * M - world.since_ms) / HOUR_MS)
            if each.rule in RULES
        ]
    assert sorted(got) == sorted(want)
