"""Drawn nodes that come up, jobs that use some, in any cut: the alerts `empty_group` are those of the plain judge."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.oracle.node_groups import PaidNode, empty_group
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0
from tests.worker.test_double_held import holds, nodes, told
from tests.worker.test_empty_group import P5, in_use
from tests.worker.test_fleet_rules import World, shared

__all__ = ["shared"]

LENGTH = 150
spans = st.tuples(st.integers(0, 100), st.integers(1, LENGTH)).map(
    lambda each: range(each[0], min(sum(each), LENGTH))
)
drawn_nodes = st.lists(st.tuples(spans, spans | st.just(range(0))), min_size=2, max_size=6)
cuts = st.lists(st.integers(1, LENGTH - 1), max_size=3, unique=True)


@example([(range(5, LENGTH), range(0))] * 3, range(LENGTH), [30])
@example(
    [(range(5, LENGTH), range(60, 70))] * 4 + [(range(50, LENGTH), range(0))] * 3, range(LENGTH), [55, 66]
)
@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(drawn_nodes, st.just(range(LENGTH)) | spans, cuts)
def test_the_alerts_are_those_of_the_plain_judge(
    shared: Any, drawn: list[tuple[range, range]], base: range, cut: list[int]
) -> None:
    empty(shared.target)
    world = World(shared)
    in_use(world, base)
    known = {"base": PaidNode("c1/base", "c1", {*base}, {*base}, 20)}
    for number, (paid, used) in enumerate(drawn):
        name, usd = f"x{number}", (0.05, 0.1)[number % 2]
        nodes(world, paid, 8, name, usd=usd, **P5)
        holds(world, f"job-{number}", used, 8, name)
        known[name] = PaidNode("c1/p5", "c1", {*paid}, {*used}, usd * 60)
    got: list[tuple[str, str, int]] = []
    for until in [*sorted(cut), LENGTH]:
        got += told(world.look((T0 + until * MINUTE_MS - world.since_ms) / HOUR_MS), "empty_group")
    want = [("c1/p5", status, minute) for status, minute in empty_group(known, {}, "c1/p5", LENGTH)]
    assert got == want
