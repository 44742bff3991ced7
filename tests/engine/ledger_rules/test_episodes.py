"""Episodes of rules on the ledger over long spans: what is read grows with what was found, not with the span."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, overload

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.episodes import hourly_changes, lasting_changes
from streams.engine.rules.finding import LedgerFinding
from tests.property.profile import PROFILE

T0 = 20_454 * 24 * HOUR_MS
YEARS = range(T0, T0 + 20 * 365 * 24 * HOUR_MS, MINUTE_MS)


class CountedInstants(Sequence[int]):
    """Instants that know how often one of them was read."""

    def __init__(self, instants: range) -> None:
        self._instants, self.reads = instants, 0

    def __len__(self) -> int:
        return len(self._instants)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> Any:
        self.reads += 1
        return self._instants[place]


def finding(minute: int, name: str = "a") -> LedgerFinding:
    return LedgerFinding(
        "spinning", "ticket", "job", name, T0 + minute * MINUTE_MS, "it spins; look", "SELECT 1"
    )


def said(changes: Sequence[Alert]) -> list[tuple[str, str, int]]:
    return [(each.subject_name, each.status, (each.changed_ms - T0) // MINUTE_MS) for each in changes]


def test_of_twenty_years_of_minutes_only_those_with_findings_are_read() -> None:
    found = [finding(minute) for minute in (7, 5_000_000, 5_000_001, len(YEARS) - 1)]

    def lasting(instants: Sequence[int]) -> list[Alert]:
        return lasting_changes((), found, lambda _alert, _at: False, lambda _each: True, instants)

    def hourly(instants: Sequence[int]) -> list[Alert]:
        return hourly_changes((), found, instants)

    for changes_of in (hourly, lasting):
        instants = CountedInstants(YEARS)
        assert said(changes_of(instants)) == [
            ("a", "firing", 7),
            ("a", "resolved", 8),
            ("a", "firing", 5_000_000),
            ("a", "resolved", 5_000_002),
            ("a", "firing", len(YEARS) - 1),
        ]
        assert instants.reads < 200


def test_a_finding_beside_the_instants_opens_nothing() -> None:
    hours = range(T0, T0 + 3 * HOUR_MS, HOUR_MS)
    assert said(hourly_changes((), [finding(61), finding(60, "b")], hours)) == [
        ("b", "firing", 60),
        ("b", "resolved", 120),
    ]
    assert hourly_changes((), [finding(-60), finding(500)], hours) == []


@settings(PROFILE)
@given(
    st.lists(st.tuples(st.integers(-3, 40), st.sampled_from("ab")), max_size=12),
    st.sets(st.integers(1, 39), max_size=4),
    st.sets(st.integers(0, 39), max_size=9),
)
def test_all_instants_at_once_give_what_each_alone_gives(
    held: list[tuple[int, str]], cuts: set[int], stays: set[int]
) -> None:
    """Instant by instant none is left out: that is the plain reading of the rule."""
    found = [finding(minute, name) for minute, name in held]

    def goes_on(_alert: Alert, at_ms: int) -> bool:
        return (at_ms - T0) // MINUTE_MS in stays

    def judged(parts: Sequence[range]) -> list[tuple[str, str, int]]:
        firing: dict[str, Alert] = {}
        changes: list[Alert] = []
        for part in parts:
            fresh = hourly_changes([*firing.values()], found, part, goes_on)
            firing |= {each.subject_name: each for each in fresh}
            firing = {name: each for name, each in firing.items() if each.resolved_ms is None}
            changes += fresh
        return said(changes)

    edges = [0, *sorted(cuts), 40]
    spans = [range(T0 + a * MINUTE_MS, T0 + b * MINUTE_MS, MINUTE_MS) for a, b in pairwise(edges)]
    alone = [range(T0 + k * MINUTE_MS, T0 + (k + 1) * MINUTE_MS, MINUTE_MS) for k in range(40)]
    assert sorted(judged(spans)) == sorted(judged(alone))
