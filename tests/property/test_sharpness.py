"""Proof that the strategies tell a right rule from a wrong one: each broken oracle is found out.

A rule that may be broken here unseen is one in which the engine could be wrong unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from tests.oracle import compute as oracle
from tests.oracle import intake, model, nodes, prices, rows, timeline
from tests.oracle.model import LARGEST_COST_NANO, Json
from tests.property.compare import differences
from tests.property.corpus import some, timely, untimely
from tests.strategies.logs import Log

Patch = Callable[[pytest.MonkeyPatch], None]


def found_out(
    strategy: st.SearchStrategy[Log],
    patch: pytest.MonkeyPatch,
    broken: Patch,
    most: int = 30,
    **horizons: int,
) -> bool:
    """Whether any of so many parts shows the difference; later ones are not looked at."""
    for part in range(most):
        right = some(strategy, part)
        with patch.context() as here:
            broken(here)
            for log, tables in right:
                if differences(oracle.compute(log.lines, as_of_ms=log.as_of_ms, **horizons), tables):
                    return True
    return False


def nothing(_patch: pytest.MonkeyPatch) -> None:
    """The rules as they are."""


def setting(module: object, name: str, value: object) -> Patch:
    return lambda patch: patch.setattr(module, name, value)


def rounding_half_up(patch: pytest.MonkeyPatch) -> None:
    def half_up(quantity: int, price_nano: int, divisor: int) -> int:
        return min((2 * quantity * price_nano + divisor) // (2 * divisor), LARGEST_COST_NANO)

    patch.setattr(rows, "cost_nano", half_up)
    patch.setattr(nodes, "cost_nano", half_up)


def ending_before(self: timeline.Attempt) -> list[Json]:
    if self.own_end is not None:
        return self.events[: self.events.index(self.own_end) + 1]
    return [e for e in self.events if self.superseded_ms is None or e["time_ms"] < self.superseded_ms]


def keeping_nodes(patch: pytest.MonkeyPatch) -> None:
    right = timeline.Values.after

    def after(self: timeline.Values, event: Json) -> timeline.Values:
        values = right(self, event)
        return replace(values, nodes=self.nodes) if event.get("nodes") is None else values

    patch.setattr(timeline.Values, "after", after)


def starting_is_not_lost(patch: pytest.MonkeyPatch) -> None:
    right = timeline.Attempt.lost
    patch.setattr(timeline.Attempt, "lost", lambda self, *, has_lower: right(self, has_lower=False))


TIES = prices.TIE_FIELDS
BROKEN: dict[str, Patch] = {
    "half up": rounding_half_up,
    "the tie order reversed": setting(prices, "TIE_FIELDS", TIES[::-1]),
    "the tie order without zone": setting(prices, "TIE_FIELDS", TIES[1:]),
    "ties by sku alone": setting(prices, "TIE_FIELDS", ()),
    "an event at the superseding instant does not count": setting(
        timeline.Attempt, "effective", property(ending_before)
    ),
    "endings in another order": setting(
        timeline, "JOB_TYPES", (*model.JOB_TYPES[:9], *reversed(model.JOB_TYPES[9:]))
    ),
    "resumed is no start": setting(timeline, "STARTS", ("allocated", "started")),
    "a start after the end does not count": setting(
        timeline.Attempt, "metered", property(lambda a: not any(e["type"] in model.STARTS for e in a.effective))
    ),
    "the newest sample by time and source": setting(intake.Sample, "newer", lambda s: (s.time_ms, s.source)),
    "the newest sample by time, node, id": setting(intake.Sample, "newer", lambda s: (s.time_ms, s.node, s.id)),
    "nodes kept when the count differs": keeping_nodes,
    "starting of a retry is not lost": starting_is_not_lost,
    "no overhead per GPU-time": setting(rows, "GPU_TIME_COMPONENTS", ("gpu", "license", "labor")),
    "no label costs anything": setting(rows, "for_labels", lambda _: ()),
    "of several labels one costs": setting(rows, "for_labels", lambda context, of=rows.for_labels: of(context)[:1]),
    "direction does not match": setting(
        rows, "TRAFFIC_FIELDS", tuple(f for f in model.TRAFFIC_FIELDS if f != "direction")
    ),
    "paid for an hour at most": setting(timeline, "PAID_AT_MOST_MS", model.HOUR_MS),
    "team of the newest event of any attempt": setting(
        oracle, "last_said",
        lambda events: {
            name: e[name]
            for e in sorted(events, key=timeline.event_order)
            for name in ("owner", "team", "project", "experiment", "labels")
            if e.get(name) is not None
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_out(timely, monkeypatch, BROKEN[name])


@pytest.mark.parametrize(
    "horizons", [{"late_horizon_s": 601}, {"late_horizon_s": 599}, {"job_horizon_ms": model.DAY_MS - 1}]
)
def test_a_horizon_off_by_one_is_found_out(horizons: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_out(untimely, monkeypatch, nothing, **horizons)


@pytest.mark.parametrize("strategy", [timely, untimely], ids=["timely", "untimely"])
def test_the_right_rules_are_not_found_out(
    strategy: st.SearchStrategy[Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not found_out(strategy, monkeypatch, nothing, most=2)
