"""Budgets against the oracle: the same alerts, however the minutes are cut into looks, repeated and taken over."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.calendar import PLAIN, Calendar
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.budgets import Budget, Limits
from streams.engine.ledger_rules.budget_alert import TopKind, budget_alert
from streams.engine.ledger_rules.budget_forecast import judge_forecast
from streams.engine.ledger_rules.budget_used import Minutes, judge_used
from streams.engine.ledger_rules.findings import BudgetFinding
from streams.engine.ledger_rules.like_hours import outlook
from streams.engine.ledger_rules.periods import period_at, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts, EarlierHours, Usage
from tests.oracle.budgets import LikeHours, Told, budget_told, forecast_told, period_end

T0 = 20_454 * 86_400_000 + 22 * HOUR_MS  # Thursday, 1 January 2026, 22:00 UTC
LENGTH = 300

spent_by_minute = st.dictionaries(st.integers(0, LENGTH - 1), st.integers(0, 40), max_size=80)
cuts = st.lists(st.tuples(st.integers(1, LENGTH), st.booleans()), max_size=12)


def usage_of(
    spent: dict[int, int], from_ms: int, until_ms: int, per: str, calendar: Calendar = PLAIN
) -> Usage:
    """What a reader reads for a look: hours before, minutes after."""
    start_ms = period_at(per, from_ms, calendar).start_ms
    before = sum(usd for at_ms, usd in spent.items() if start_ms <= at_ms < from_ms)
    minutes = sorted(at_ms for at_ms in spent if from_ms <= at_ms < until_ms)
    amounts = np.zeros((3, len(minutes)), np.int64)
    amounts[0] = [spent[at_ms] for at_ms in minutes]
    by_hour: dict[int, int] = {}
    for at_ms, usd in spent.items():
        if at_ms < from_ms:
            by_hour[at_ms // HOUR_MS * HOUR_MS] = by_hour.get(at_ms // HOUR_MS * HOUR_MS, 0) + usd
    hours = np.zeros((3, len(by_hour)), np.int64)
    hours[0] = [by_hour[hour_ms] for hour_ms in sorted(by_hour)]
    earlier = EarlierHours(np.array(sorted(by_hour), np.int64), hours)
    return Usage(from_ms, Amounts(before), np.array(minutes, np.int64), amounts, earlier)


class Table:
    """The table of alerts, and who judges."""

    def __init__(self, subject: BudgetSubject) -> None:
        self.subject = subject
        self.rows: dict[str, Alert] = {}
        self.percents: dict[str, int] = {}
        self.changes: list[tuple[str, str, int]] = []

    def look(self, spent: dict[int, int], since_ms: int, until_ms: int) -> list[BudgetFinding]:
        usage = usage_of(spent, (since_ms // HOUR_MS - 1) * HOUR_MS, until_ms, *self.subject.budget.cycle)
        minutes = Minutes(since_ms, until_ms)
        found = list(judge_used(self.subject, usage, minutes, self.rows.get))
        for each in found:
            self.rows[each.id] = budget_alert(self.rows.get(each.id), each, TopKind(), silenced=False)
            self.percents[each.id] = each.percent
            self.changes.append((each.id, self.rows[each.id].status, self.rows[each.id].changed_ms))
        return found

    def told(self) -> list[Told]:
        found = [(self.percents[row.alert_id], row.started_ms, row.resolved_ms) for row in self.rows.values()]
        return sorted(found, key=lambda each: (each[1], each[0]))


@given(
    spent_by_minute,
    st.integers(1, 600),
    st.sampled_from(["day", "week", "month", "total"]),
    cuts,
)
def test_looks_tell_what_the_oracle_tells(
    given_spent: dict[int, int], limit: int, per: str, given_cuts: list[tuple[int, bool]]
) -> None:
    spent = {T0 + minute * MINUTE_MS: usd for minute, usd in given_spent.items()}
    table = Table(BudgetSubject(Budget("b", {"team": "t"}, per, Limits(limit))))
    since_ms = T0
    for minute, is_taken_over in sorted(given_cuts):
        until_ms = T0 + minute * MINUTE_MS
        table.look(spent, since_ms, until_ms)
        repeated = table.look(spent, since_ms, until_ms)  # a look again, as after a crash before it was noted
        assert repeated == []
        since_ms = until_ms
        if is_taken_over:
            assert table.look(spent, until_ms - MINUTE_MS, until_ms) == []  # it knows the table alone
    end_ms = T0 + LENGTH * MINUTE_MS
    table.look(spent, since_ms, end_ms)
    used = {at_ms: (usd, 0, 0) for at_ms, usd in spent.items()}
    assert table.told() == budget_told(used, (limit, None, None), per, T0, end_ms)
    assert len(set(table.changes)) == len(table.changes)


@given(
    spent_by_minute,
    st.integers(1, 600),
    st.sampled_from(
        [("Europe/Berlin", 1), ("Atlantic/Cape_Verde", -1), ("Asia/Kolkata", 5), ("Europe/London", 0)]
    ),
    cuts,
)
def test_a_zones_day_begins_at_its_midnight_in_any_cut(
    given_spent: dict[int, int], limit: int, zone: tuple[str, int], given_cuts: list[tuple[int, bool]]
) -> None:
    """As the oracle tells of UTC, by a clock that is so many hours ahead; India's day begins with its first whole hour of UTC."""
    name, ahead_h = zone
    begin_ms = T0 - 4 * HOUR_MS  # 18:00 UTC
    spent = {begin_ms + 2 * minute * MINUTE_MS: usd for minute, usd in given_spent.items()}
    table = Table(BudgetSubject(Budget("b", {"team": "t"}, "day", Limits(limit), calendar=Calendar(name))))
    since_ms: int = begin_ms
    for minute in sorted({minute for minute, _ in given_cuts} | {LENGTH}):
        until_ms = begin_ms + 2 * minute * MINUTE_MS
        table.look(spent, since_ms, until_ms)
        since_ms = until_ms
    shift_ms = ahead_h * HOUR_MS
    used = {at_ms + shift_ms: (usd, 0, 0) for at_ms, usd in spent.items()}
    told = budget_told(used, (limit, None, None), "day", begin_ms + shift_ms, since_ms + shift_ms)
    shifted = [
        (percent, fired_ms - shift_ms, None if over_ms is None else over_ms - shift_ms)
        for percent, fired_ms, over_ms in told
    ]
    assert table.told() == shifted


@given(spent_by_minute, st.integers(0, 2**40), st.integers(1, LENGTH))
def test_a_rate_is_of_the_last_hour_or_since_the_first_use_in_it(
    given_spent: dict[int, int], factor: int, minute: int
) -> None:
    spent = {T0 + at * MINUTE_MS: usd * factor for at, usd in given_spent.items()}
    at_ms = T0 + minute * MINUTE_MS
    rate = usage_of(spent, T0, at_ms, "total").per_hour_at(at_ms).usd_nano
    inside = {minute_ms: usd for minute_ms, usd in spent.items() if at_ms - HOUR_MS <= minute_ms < at_ms}
    since_ms = at_ms - min(inside, default=at_ms - HOUR_MS)
    assert rate == sum(inside.values()) * HOUR_MS // since_ms


@given(st.sampled_from(["day", "week", "month"]), st.integers(0, 4 * 10**12))
def test_periods_are_those_of_the_calendar(per: str, at_ms: int) -> None:
    period = period_at(per, at_ms)
    assert period.start_ms <= at_ms < (period.end_ms or 0)
    assert period.end_ms == period_end(per, at_ms)
    following = list(periods(per, at_ms, period.end_ms or 0))
    assert [each.start_ms for each in following] == [period.start_ms, period.end_ms]


@given(st.integers(1, 30), st.integers(1, 20_000), st.integers(61, LENGTH))
def test_a_forecast_of_a_first_day_is_that_of_the_rate(per_minute: int, limit: int, minutes: int) -> None:
    """At an even rate it fires once a 20th is over and used if the rest uses up the rest, and never once it is used up."""
    start_ms = 20_454 * 86_400_000
    spent = {start_ms + at * MINUTE_MS: per_minute for at in range(minutes)}
    until_ms = start_ms + minutes * MINUTE_MS
    subject = BudgetSubject(Budget("b", {}, "day", Limits(limit)))
    usage = usage_of(spent, start_ms, until_ms, "day")
    found = list(judge_forecast(subject, usage, Minutes(usage.from_ms, until_ms), lambda _: None))
    begun = [at for at in range(72, minutes + 1) if 20 * per_minute * at >= limit > per_minute * at]
    fires = begun[:1] if limit < per_minute * 1440 else []
    assert [each.at_ms for each in found if each.fires] == [start_ms + at * MINUTE_MS for at in fires]
    used_up = [at for at in range(73, minutes + 1) if per_minute * at >= limit][: len(fires)]
    assert [each.at_ms for each in found if not each.fires] == [start_ms + at * MINUTE_MS for at in used_up]


#: An hour of a day, on how many days from one on, every how many days, and what is used in it.
_habits = st.lists(
    st.tuples(
        st.integers(0, 23),
        st.integers(-30, 1),
        st.integers(1, 32),
        st.sampled_from([1, 1, 2, 7]),
        st.integers(0, 60),
    ),
    min_size=1,
    max_size=8,
)


def spent_by_habit(habits: Iterable[tuple[int, int, int, int, int]], day_ms: int) -> dict[int, int]:
    """Minutes of the days around one."""
    found: dict[int, int] = {}
    for hour, first, days, every, usd in habits:
        for day in range(first, min(first + days, 2), every):
            at_ms = day_ms + day * DAY_MS + hour * HOUR_MS
            found |= {at_ms: usd, at_ms + 10 * MINUTE_MS: 2 * usd, at_ms + (hour + 5) * MINUTE_MS: usd // 2}
    return found


@given(
    st.integers(20_454, 20_485),
    _habits,
    st.one_of(st.integers(1, 400), st.integers(1, 6_000)),
    st.sampled_from(["day", "week", "month"]),
    st.lists(st.integers(2, 2 * 1440 - 1), max_size=3),
)
@example(
    20_454, [(0, 0, 1, 1, 6), (1, 0, 1, 1, 1)], 25, "day", [1439]
)  # a look ends a minute before a day does
@example(20_454, [(0, 0, 1, 1, 6), (1, 0, 1, 1, 1)], 25, "day", [1440])
def test_a_forecast_is_that_of_like_hours(
    day: int, habits: list[tuple[int, int, int, int, int]], limit: int, per: str, given_cuts: list[int]
) -> None:
    """Two days are judged, after days of habits, in looks of any length."""
    day_ms = day * DAY_MS
    spent = spent_by_habit(habits, day_ms)
    subject = BudgetSubject(Budget("b", {}, per, Limits(limit)))
    rows: dict[str, Alert] = {}
    told: list[tuple[bool, int]] = []
    since_ms = day_ms
    for minute in [*sorted(given_cuts), 2 * 1440]:
        until_ms = day_ms + minute * MINUTE_MS
        usage = usage_of(spent, (since_ms // HOUR_MS - 1) * HOUR_MS, until_ms, per)
        for each in judge_forecast(subject, usage, Minutes(since_ms, until_ms), rows.get):
            rows[each.id] = budget_alert(rows.get(each.id), each, TopKind(), silenced=False)
            told.append((each.fires, each.at_ms))
        since_ms = until_ms
    amounts = {at_ms: (usd, 0, 0) for at_ms, usd in spent.items()}
    start_ms = period_at(per, day_ms).start_ms
    before = sum(usd for at_ms, usd in spent.items() if start_ms <= at_ms < day_ms)
    want = forecast_told(amounts, (limit, None, None), per, day_ms, since_ms, before=(before, 0, 0))
    changes = [(True, fired) for fired, _ in want] + [(False, over) for _, over in want if over is not None]
    assert sorted(told, key=lambda each: each[1]) == sorted(changes, key=lambda each: each[1])


@given(spent_by_minute, st.integers(1, 200), st.integers(61, LENGTH), st.integers(61, LENGTH))
def test_a_new_owner_changes_no_forecast_before_its_last_change(
    given_spent: dict[int, int], limit: int, one: int, other: int
) -> None:
    """What was stored meanwhile may hold at minutes that the former owner has judged otherwise."""
    late = {T0 + at * MINUTE_MS: usd for at, usd in given_spent.items()}
    subject = BudgetSubject(Budget("b", {}, "day", Limits(limit)))
    rows: dict[str, Alert] = {}
    changed: list[int] = []
    for spent, minute in (
        ({at: usd for at, usd in late.items() if usd % 2}, min(one, other)),
        (late, max(one, other)),
    ):
        until_ms = T0 + minute * MINUTE_MS
        usage = usage_of(spent, T0 - HOUR_MS, until_ms, "day")
        for each in list(judge_forecast(subject, usage, Minutes(usage.from_ms, until_ms), rows.get)):
            rows[each.id] = budget_alert(rows.get(each.id), each, TopKind(), silenced=False)
            if each.period.start_ms == period_at("day", T0).start_ms:
                changed.append(rows[each.id].changed_ms)
    assert changed == sorted(set(changed))


@given(
    st.dictionaries(st.integers(0, 27 * 24), st.integers(1, 40), max_size=200),
    st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
    ),
    st.sampled_from([20_385, 20_393, 20_533, 20_541]),  # two weeks around changes of clocks
    st.integers(0, 24 * 7),
)
def test_like_hours_are_those_of_the_zones_clock(
    used: dict[int, int], zone: str, day: int, hour: int
) -> None:
    begin_ms = (day - 20) * DAY_MS
    now_ms = day * DAY_MS + hour * HOUR_MS
    spent = {
        begin_ms + each * HOUR_MS: usd for each, usd in used.items() if begin_ms + each * HOUR_MS < now_ms
    }
    usage = usage_of(spent, now_ms, now_ms, "day")
    seen = outlook(usage, now_ms, now_ms + 48 * HOUR_MS, Calendar(zone))

    def clock_ms(hour_ms: int) -> int:
        wall = datetime.fromtimestamp(hour_ms // 1000, ZoneInfo(zone)).replace(tzinfo=UTC)
        return int(wall.timestamp()) * 1000

    like = LikeHours({at_ms: (usd, 0, 0) for at_ms, usd in spent.items()}, clock_ms)
    for place in range(48):
        want = like.to_come(now_ms, now_ms + place * HOUR_MS)
        assert seen.is_unknown[place] == (want is None)
        rates = seen.here if place == 0 else seen.to_come[:, place - 1]
        assert rates.tolist() == (want or [0, 0, 0])
