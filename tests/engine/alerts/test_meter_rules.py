"""Episodes of the meter's alerts about itself, by the contract's words."""

from __future__ import annotations

import pytest

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts import meter_rules
from streams.engine.alerts.alert import Alert, alert_id, is_change
from streams.engine.alerts.meter_rules import (
    BOOKS_UNBALANCED,
    CANARY_LATE,
    CANARY_WRONG,
    CLOCK_WRONG,
    METER,
    SHARDS_UNOWNED,
    MeterFinding,
    after,
)
from streams.engine.kernels.episode_steps import REOPENS_MS

T0 = 1_800_000_000_000


def told(*found: tuple[int, bool], rule: str = CANARY_LATE) -> list[Alert]:
    """The rows that these findings (ms after T0, holds) lead to, in order."""
    rows: list[Alert] = []
    for after_ms, holds in found:
        row = after(
            rows[-1] if rows else None,
            MeterFinding(rule, "canary", holds, T0 + after_ms, "12 s", "SELECT 1"),
        )
        rows += [] if row is None else [row]
    return rows


def test_what_never_held_is_no_alert() -> None:
    assert told((0, False), (5, False)) == []


def test_an_episode_runs_from_the_instant_it_opens_to_the_instant_it_clears() -> None:
    fires, over = told((0, False), (10, True), (20, True), (60_010, False), (70_000, False))
    assert (fires.status, fires.started_ms, fires.resolved_ms, fires.changed_ms) == (
        "firing",
        T0 + 10,
        None,
        T0 + 10,
    )
    assert fires.alert_id == over.alert_id == alert_id(CANARY_LATE, METER, "canary", T0 + 10)
    assert (over.status, over.started_ms, over.resolved_ms) == ("resolved", T0 + 10, T0 + 60_010)
    assert over.summary == "over after 1 min: 12 s"
    assert (fires.severity, fires.subject_kind, fires.owner, fires.evidence_sql) == (
        "page",
        "meter",
        "",
        "SELECT 1",
    )
    assert is_change(fires)
    assert is_change(over)


@pytest.mark.parametrize(("pause_ms", "same"), [(REOPENS_MS, True), (REOPENS_MS + 1, False)])
def test_within_ten_minutes_of_clearing_it_is_the_same_episode(pause_ms: int, same: bool) -> None:
    first, _, again = told((0, True), (100, False), (100 + pause_ms, True))
    assert (again.alert_id == first.alert_id) is same
    assert again.started_ms == (T0 if same else T0 + 100 + pause_ms)
    assert again.firings == (2 if same else 1)
    assert (again.status, again.resolved_ms) == ("firing", None)


def test_the_words_of_a_second_end_do_not_quote_the_first() -> None:
    rows = told((0, True), (1_000, False), (2_000, True), (3_000, False))
    assert rows[-1].summary == "over after 3 s: 12 s"


def test_a_clock_that_went_back_keeps_the_messages_in_order() -> None:
    changed = [row.changed_ms for row in told((0, True), (-5_000, False), (-5_000, True))]
    assert changed == [T0, T0 + 1, T0 + 2]


def test_rules_and_subjects_have_ids_of_their_own() -> None:
    found = [
        MeterFinding(rule, subject, True, T0)
        for rule in (CANARY_LATE, BOOKS_UNBALANCED)
        for subject in ("books of shard 1", "books of shard 2")
    ]
    rows = [after(None, each) for each in found]
    assert len({row.alert_id for row in rows if row is not None}) == 4


RULES = (BOOKS_UNBALANCED, CANARY_LATE, CANARY_WRONG, CLOCK_WRONG, SHARDS_UNOWNED)
FLAPS = [
    each for number in range(4) for each in ((number * MINUTE_MS, True), (number * MINUTE_MS + 5, False))
]


def test_the_rules_are_all_that_there_are() -> None:
    texts = {value for name, value in vars(meter_rules).items() if name.isupper() and isinstance(value, str)}
    assert {each for each in texts if "_" in each and " " not in each} == {*RULES}


@pytest.mark.parametrize("rule", RULES)
def test_the_fourth_opening_in_three_hours_stays_open_until_an_hour_of_quiet(rule: str) -> None:
    again = [(40 * MINUTE_MS, True), (41 * MINUTE_MS, False)]
    late = [(100 * MINUTE_MS, False), (101 * MINUTE_MS - 1, False), (101 * MINUTE_MS, False), (102 * MINUTE_MS, False)]  # fmt: skip
    rows = told(*FLAPS, *again, *late, rule=rule)
    changes = [(each.status, each.changed_ms - T0) for each in rows if is_change(each)]
    assert changes[6:] == [("firing", 3 * MINUTE_MS), ("resolved", 101 * MINUTE_MS)]
    assert rows[6].summary == "12 s; stays open until quiet for 1 h"


@pytest.mark.parametrize("rule", RULES)
def test_what_is_switched_off_does_not_stay_open(rule: str) -> None:
    last = told(*FLAPS, rule=rule)[-1]
    over = after(last, MeterFinding(rule, "canary", False, T0 + HOUR_MS // 2, is_off=True))
    assert over is not None
    assert (over.status, over.resolved_ms) == ("resolved", T0 + HOUR_MS // 2)
