"""Days, weeks and months of other time zones and fiscal years: each hour is in the cell in which it begins, and cells sum to the total."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.calendar import PERS, PLAIN, Calendar
from streams.costs.answer import CostRows, cost_steps
from streams.costs.day_parts import answered
from streams.costs.idle_nodes import cells
from streams.costs.owner_shares import cells as shares
from streams.costs.parts import HourSpan
from streams.costs.request import Period, request_of
from streams.errors import WrongUseError
from tests.new_store import begun
from tests.sinks.rows import rows

HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
FIRST = datetime(2025, 9, 20, tzinfo=UTC)
HOURS = 80 * 24
#: Half hours, half an hour of summer time, clocks that change at midnight, and the usual.
ODD = (
    "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana",
    "Pacific/Chatham", "America/Santiago", "Pacific/Kiritimati", "America/Los_Angeles",
)  # fmt: skip
Paid = list[tuple[datetime, str, int]]


@pytest.fixture(scope="module")
def paid() -> Paid:
    rng = random.Random(46)
    return [
        (FIRST + at * HOUR, team, rng.randrange(1, 10**13))
        for at in range(HOURS)
        for team in ("a", "b")
        if rng.random() < 0.8
    ]


@pytest.fixture(scope="module")
def store(paid: Paid, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    opened = ClickHouseStore(Embedded(data_dir=begun(tmp_path_factory.mktemp("calendars") / "meter")))
    hours = (
        {"hour": at, "job_id": "j", "attempt": 1, "cluster": name, "gpu_cost_usd": Decimal(nano).scaleb(-9)}
        for at, name, nano in paid
    )
    try:
        opened.insert("job_hours", rows("job_hours", *hours), "t")
        yield opened
    finally:
        opened.close()


def asked(store: ClickHouseStore, usual: Calendar = PLAIN, **words: str) -> CostRows:
    request = request_of({name.rstrip("_"): [word] for name, word in words.items()}, usual=usual)
    return answered(cost_steps(request), store.ask)


def oracle(paid: Paid, zone: str, per: str) -> dict[date, Decimal]:
    """By the first day of the cell: each hour counts to the day that the zone's calendar shows when it begins."""
    found: Counter[date] = Counter()
    for at, _, nano in paid:
        day = at.astimezone(ZoneInfo(zone)).date()
        first = {"day": day, "week": day - timedelta(days=day.weekday()), "month": day.replace(day=1)}[per]
        found[first] += nano
    return {first: Decimal(nano).scaleb(-9) for first, nano in found.items()}


def test_the_day_on_which_clocks_go_back_in_berlin_is_one_cell_of_25_hours(
    store: ClickHouseStore, paid: Paid
) -> None:
    found = asked(store, per="day", tz="Europe/Berlin", from_="2025-10-01", to="2025-11-01").rows
    october = [row for row in found if row["period_start"].startswith("2025-10-26")]
    assert [(row["period_start"], row["period_hours"]) for row in october] == [
        ("2025-10-26T00:00:00+02:00", 25)
    ]
    assert len(found) == 31
    (whole,) = asked(store, tz="Europe/Berlin", from_="2025-10-01", to="2025-11-01").rows
    assert sum(row["cost_usd"] for row in found) == whole["cost_usd"]
    assert october[0]["cost_usd"] == oracle(paid, "Europe/Berlin", "day")[date(2025, 10, 26)]


@pytest.mark.parametrize("per", PERS)
@pytest.mark.parametrize("zone", [*ODD, *random.Random(7).sample(sorted(available_timezones()), 6)])
def test_cells_of_a_zone_are_those_of_its_calendar_and_sum_to_the_total(
    store: ClickHouseStore, paid: Paid, zone: str, per: str
) -> None:
    found = asked(store, per=per, tz=zone).rows
    by_day = {datetime.fromisoformat(row["period_start"]).date(): row["cost_usd"] for row in found}
    assert by_day == oracle(paid, zone, per)
    (whole,) = asked(store, tz=zone).rows
    assert sum(by_day.values()) == whole["cost_usd"]
    apart = asked(store, per=per, tz=zone, by="cluster").rows
    assert sum(row["cost_usd"] for row in apart) == whole["cost_usd"]


@pytest.mark.parametrize("zone", ODD[:4])
def test_shares_of_owners_are_of_the_same_cells(store: ClickHouseStore, paid: Paid, zone: str) -> None:
    found = answered(shares(Period.day, HourSpan(None, None), Calendar(zone=zone)), store.ask).records()
    assert {datetime.fromisoformat(row["period_start"]).date(): row["cost_usd"] for row in found} == oracle(
        paid, zone, "day"
    )


def test_a_date_is_the_first_instant_of_the_zones_day(store: ClickHouseStore, paid: Paid) -> None:
    (row,) = asked(store, tz="Asia/Kolkata", from_="2025-10-01", to="2025-10-02").rows
    assert row["cost_usd"] == oracle(paid, "Asia/Kolkata", "day")[date(2025, 10, 1)]
    assert row["period_start"] == "2025-10-01T00:30:00+05:30"


def test_a_comparison_is_with_the_zones_day_before(store: ClickHouseStore, paid: Paid) -> None:
    days = oracle(paid, "Europe/Berlin", "day")
    found = asked(
        store, per="day", tz="Europe/Berlin", from_="2025-10-24", to="2025-10-29", compare="previous"
    ).rows
    for row in found:
        day = datetime.fromisoformat(row["period_start"]).date()
        assert row["cost_usd"] == days[day]
        # Of the 23 or 25 hours of a day as many as that one has: to its end, where it is the shorter one.
        if day != date(2025, 10, 24):
            assert row["previous_cost_usd"] == days[day - timedelta(days=1)]


@pytest.mark.parametrize("months", ["4-4-5", "4-5-4", "5-4-4"])
def test_fiscal_months_of_weeks_sum_to_the_total(store: ClickHouseStore, months: str) -> None:
    calendar = Calendar("Europe/Berlin", "sunday", "02-01", months)
    found = asked(store, calendar, per="month").rows
    (whole,) = asked(store, calendar).rows
    assert sum(row["cost_usd"] for row in found) == whole["cost_usd"]
    assert {round(row["period_hours"] / 24 / 7) for row in found} <= {4, 5}
    starts = [datetime.fromisoformat(row["period_start"]) for row in found]
    assert all((at.weekday(), at.hour) == (6, 0) for at in starts)


def test_idle_time_has_the_same_cells(store: ClickHouseStore) -> None:
    at = [datetime(2025, 10, 25, 20, tzinfo=UTC) + place * HOUR for place in range(48)]
    paid_for = {"unit": "gpu_milli_ms", "quantity": 60_000_000, "cost_usd": Decimal(1)}
    minutes = ({"minute": each, "node": "n", "sku": "s", **paid_for} for each in at)
    hours = ({"hour": each, "node": "n", "paid_ms": HOUR_MS, "cost_usd": Decimal(1)} for each in at)
    store.insert("node_minutes", rows("node_minutes", *minutes), "m")
    store.insert("node_hours", rows("node_hours", *hours), "h")
    berlin = Calendar("Europe/Berlin")
    found = answered(cells(("node",), Period.day, HourSpan(None, None), calendar=berlin), store.ask)
    m3 = asked(store, metric="m3", per="day", tz="Europe/Berlin").rows
    expected = {
        "2025-10-25T00:00:00+02:00": 2, "2025-10-26T00:00:00+02:00": 25, "2025-10-27T00:00:00+01:00": 21,
    }  # fmt: skip
    assert {row[0]: row[found.names.index("idle_cost_usd")] for row in found.rows} == expected
    assert {row["period_start"]: row["idle_cost_usd"] for row in m3} == expected


@pytest.mark.parametrize(
    "zone",
    ["../../etc/passwd", "/etc/localtime", "Europe/../../../etc/passwd", "Europe/Berlin\0", "europe/berlin", "posixrules",
     "x" * 100_000, "CEST", "+02:00", "Европа/Берлин", "\udcff", "Europe", "UTC; DROP TABLE jobs"],
)  # fmt: skip
def test_what_is_no_zone_is_refused_in_one_short_line_and_never_looked_up(zone: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        request_of({"tz": [zone]})
    line = str(refused.value)
    assert line.startswith("tz: ")
    assert len(line) < 300
    assert line.isprintable()


def test_too_many_days_are_refused() -> None:
    years = {"from": ["1971-01-01"], "to": ["2100-01-01"]}
    asked_days = cost_steps(request_of({"per": ["day"], "tz": ["Europe/Berlin"], **years}))
    with pytest.raises(WrongUseError, match="per: more than 10000 days of Europe/Berlin"):
        next(asked_days)


@pytest.mark.parametrize("zone", [*ODD, *random.Random(11).sample(sorted(available_timezones()), 25)])
def test_days_weeks_and_months_are_without_gaps_and_each_hour_is_in_one(zone: str) -> None:
    rng = random.Random(zone)
    year_start = f"{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    months = rng.choice(("calendar", "4-4-5", "4-5-4", "5-4-4"))
    calendar = Calendar(zone, rng.choice(("monday", "sunday", "saturday")), year_start, months)
    from_ms = rng.randrange(0, 40 * 365 * 24) * HOUR_MS
    for per in PERS:
        starts = calendar.starts(per, from_ms, from_ms + 800 * 24 * HOUR_MS)
        assert all(start % HOUR_MS == 0 for start in starts)
        for start, following in pairwise(starts):
            assert calendar.end_of(per, start) == following
            assert calendar.before(per, following) == start
            at_ms = rng.randrange(start, following)
            assert calendar.start_of(per, at_ms) == start
    longest = {"day": 50, "week": 9 * 24, "month": 43 * 24}
    for per in PERS:
        starts = calendar.starts(per, from_ms, from_ms + 800 * 24 * HOUR_MS)
        assert all(b - a <= longest[per] * HOUR_MS for a, b in pairwise(starts))


@pytest.mark.parametrize("year_start", ["01-01", "02-01", "04-06", "07-15", "10-20", "12-28"])
@pytest.mark.parametrize("months", ["calendar", "4-4-5"])
def test_each_name_of_a_month_is_one_fiscal_month_and_none_is_left_out(year_start: str, months: str) -> None:
    calendar = Calendar(year_start=year_start, months=months)
    named = [calendar.named_month(2020 + at // 12, at % 12 + 1) for at in range(120)]
    assert all(one[1] == other[0] for one, other in pairwise(named))
    for first, until in named:
        start = calendar.instant_of(first)
        assert calendar.start_of("month", start) == start
        assert calendar.end_of("month", start) == calendar.instant_of(until)


def test_a_british_fiscal_month_and_a_retail_year_of_53_weeks() -> None:
    british = Calendar("Europe/London", year_start="04-06")
    assert british.named_month(2026, 4) == (date(2026, 4, 6), date(2026, 5, 6))
    retail = Calendar(week_start="sunday", year_start="02-01", months="4-5-4")
    assert retail.named_month(2023, 2)[0] == date(2023, 1, 29)
    # The year 2023 of the National Retail Federation's calendar has 53 weeks: its January 2024 has five.
    assert retail.named_month(2024, 1) == (date(2023, 12, 31), date(2024, 2, 4))
