"""Alerts that flap, of any rule that is judged on the ledger: the rows are those of the plain oracle, in whatever spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import FIRING, Alert, is_change
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.ledger_rules.flapping import (
    IsOver,
    Subject,
    alert_rows,
    as_judged,
    changed_ms,
    subject_of,
)
from streams.engine.ledger_rules.price_jumps import jump_changes
from streams.engine.rules.finding import LedgerFinding
from tests.oracle.team_rates import flapping
from tests.property.profile import PROFILE

M = MINUTE_MS
T0 = 20_454 * 24 * HOUR_MS
LAST = 400


def never(_alert: Alert, _at_ms: int) -> bool:
    return False


class Judged:
    """What is stored of alerts, and one judge of them."""

    def __init__(self, is_over: IsOver = never) -> None:
        self.rows: dict[str, Alert] = {}
        self.found: list[Alert] = []
        self._is_over = is_over

    def firing(self) -> list[Alert]:
        return [row for row in self.rows.values() if row.status == FIRING]

    def keep(self, changes: Iterable[Alert], since: int, until: int) -> None:
        last: dict[Subject, Alert] = {}
        for row in sorted(self.rows.values(), key=lambda row: row.openings):
            last[subject_of(row)] = row
        span = T0 + since * M, T0 + until * M
        for row in alert_rows(changes, self.firing(), last, span, self._is_over):
            known = self.rows.get(row.alert_id)
            if known is None or changed_ms(known) < changed_ms(row):
                self.rows[row.alert_id] = row
                self.found.append(row)

    def changes(self) -> list[tuple[str, str, int]]:
        return [
            (each.subject_name, each.status, (each.changed_ms - T0) // M)
            for each in self.found
            if is_change(each)
        ]


def finding(minute: int, name: str = "a", severity: str = "ticket") -> LedgerFinding:
    return LedgerFinding("spinning", severity, "job", name, T0 + minute * M, "it spins; look", "SELECT 1")


def hold(
    held: Sequence[int], cut: Iterable[int], is_over: IsOver = never, pages: Sequence[int] = ()
) -> Judged:
    """A rule that holds at these minutes, judged at whole five minutes in spans that end at these."""
    judged, since = Judged(is_over), 0
    for until in [*sorted(cut), LAST]:
        instants = [T0 + minute * M for minute in range(since // 5 * 5 + 5, until + 1, 5)]
        found = [finding(each, severity="page" if each in pages else "ticket") for each in held]
        changes = hourly_changes(as_judged(judged.firing()), found, instants)
        judged.keep(changes, since, until)
        since = until
    return judged


held_at = st.lists(st.integers(1, LAST // 5), min_size=4, max_size=40, unique=True).map(
    lambda fives: sorted(5 * each for each in fives)
)
cuts = st.lists(st.integers(1, LAST - 1), max_size=8, unique=True)


@settings(PROFILE)
@given(held_at, cuts)
def test_any_cut_tells_what_the_plain_judge_tells(held: list[int], cut: list[int]) -> None:
    whole, parts = hold(held, ()), hold(held, cut)
    assert [each[1:] for each in whole.changes()] == flapping(held, LAST)
    assert parts.found == whole.found
    assert parts.rows == whole.rows


@settings(PROFILE)
@given(held_at, cuts, st.lists(st.integers(1, LAST // 5), max_size=4), st.integers(0, LAST))
def test_any_cut_tells_the_same_of_what_becomes_urgent_or_is_over(
    held: list[int], cut: list[int], pages: list[int], over: int
) -> None:
    def is_over(_: Alert, at_ms: int) -> bool:
        return at_ms >= T0 + over * M

    urgent = [5 * each for each in pages]
    assert hold(held, cut, is_over, urgent).found == hold(held, (), is_over, urgent).found


@settings(PROFILE)
@given(st.lists(st.integers(1, LAST), min_size=1, max_size=14, unique=True), cuts)
def test_any_cut_tells_the_same_of_episodes_that_overlap(jumps: list[int], cut: list[int]) -> None:
    def jumped(ends: Sequence[int]) -> Judged:
        judged, since = Judged(), 0
        for until in ends:
            found = [finding(each) for each in sorted(jumps) if since < each <= until]
            judged.keep(jump_changes(as_judged(judged.firing()), found, T0 + until * M), since, until)
            since = until
        return judged

    whole = jumped([LAST])
    assert jumped([*sorted(cut), LAST]).found == whole.found
    assert jumped([*range(1, LAST + 1)]).found == whole.found


def test_more_than_three_openings_in_three_hours_are_at_most_four_messages_and_their_ends() -> None:
    judged = hold(range(5, 300, 10), ())
    assert [each[1] for each in judged.changes()] == ["firing", "resolved"] * 3 + ["firing", "resolved"]
    assert judged.changes()[-1] == ("a", "resolved", 360)  # it held last at 295


def test_an_opening_that_is_more_urgent_is_told_as_the_same_alert() -> None:
    judged = hold([5, 15, 25, 35, 45, 55, 65], (), pages=[55, 65])
    fires = [each for each in judged.found if is_change(each) and each.status == FIRING]
    assert [(each.severity, (each.changed_ms - T0) // M) for each in fires[3:]] == [
        ("ticket", 35),
        ("page", 55),
    ]
    assert fires[3].alert_id == fires[4].alert_id
    assert fires[4].page_ms == T0 + 55 * M


def test_what_is_over_does_not_stay_open() -> None:
    judged = hold([5, 15, 25, 35], (), is_over=lambda _, at_ms: at_ms >= T0 + 60 * M)
    assert judged.changes()[-1] == ("a", "resolved", 60)


def test_what_a_new_owner_judges_again_changes_nothing() -> None:
    held = [5, 15, 25, 35, 45, 55, 100]
    judged = hold(held, ())
    for until in (60, 130):
        part = Judged()
        part.rows = {each.alert_id: each for each in judged.found if changed_ms(each) <= T0 + until * M}
        before = dict(part.rows)
        for since in (0, 20, 50):
            instants = [T0 + minute * M for minute in range(since // 5 * 5 + 5, until + 1, 5)]
            changes = hourly_changes(as_judged(part.firing()), map(finding, held), instants)
            part.keep(changes, since, until)
            assert part.rows == before


def test_rows_of_an_older_release_count_as_one_opening() -> None:
    judged = Judged()
    judged.keep([*hourly_changes([], [finding(5)], [T0 + 5 * M])], 0, 5)
    (row,) = judged.rows.values()
    judged.rows = {row.alert_id: msgspec.structs.replace(row, openings=())}
    judged.keep(hourly_changes(as_judged(judged.firing()), [], [T0 + 10 * M]), 5, 10)
    assert judged.changes()[-1] == ("a", "resolved", 10)
