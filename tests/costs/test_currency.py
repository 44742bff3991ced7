"""Costs and budgets in another currency: each cell at the rate of its last day, or of today while it goes on, against fractions rounded once; late rates."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.cli.shown_currency import rate_of
from streams.cli.spans import days_of_month
from streams.costs.answer import CostRows, cost_steps
from streams.costs.budgets import converted_steps
from streams.costs.day_parts import answered
from streams.costs.month_store import OpenMonthStore
from streams.costs.request import request_of
from streams.errors import WrongUseError
from tests.new_store import begun
from tests.sinks.rows import rows

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
DAYS = 40
HOUR = timedelta(hours=1)
#: Within the last day that has costs, and in a week that has them no more.
NOW = FIRST + (DAYS - 1) * timedelta(days=1) + timedelta(hours=12)
LATER = datetime(2026, 12, 1, tzinfo=UTC)
Quoted = dict[date, tuple[Decimal, Decimal]]


@pytest.fixture(scope="module")
def quoted() -> Quoted:
    """Rates of weekdays, and none of a week and more in the end of October."""
    rng = random.Random(5)
    days = [FIRST.date() + timedelta(days=at) for at in range(DAYS)]
    known = [day for day in days if day.weekday() < 5 and not date(2026, 10, 19) <= day <= date(2026, 10, 30)]
    return {day: (Decimal(1), Decimal(rng.randrange(10_000, 13_000)).scaleb(-4)) for day in known}


@pytest.fixture(scope="module")
def store(quoted: Quoted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    rng = random.Random(6)
    opened = ClickHouseStore(Embedded(data_dir=begun(tmp_path_factory.mktemp("currency") / "meter")))
    hours = (
        {
            "hour": FIRST + at * HOUR,
            "job_id": "j",
            "attempt": 1,
            "cluster": name,
            "gpu_cost_usd": Decimal(rng.randrange(10**12)).scaleb(-9),
        }
        for at in range(DAYS * 24)
        for name in "abc"
    )
    try:
        opened.insert("job_hours", rows("job_hours", *hours), "h")
        put(opened, quoted, "first")
        yield opened
    finally:
        opened.close()


def put(store: ClickHouseStore, quoted: Quoted, token: str, version: int = 1) -> None:
    made = (
        {
            "currency": "EUR",
            "day": datetime(day.year, day.month, day.day, tzinfo=UTC),
            "units": units,
            "dollars": dollars,
            "version": version,
        }
        for day, (units, dollars) in quoted.items()
    )
    store.insert("fx_rates", rows("fx_rates", *made), token)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def asked(store: ClickHouseStore, now: datetime = NOW, **words: str) -> CostRows:
    given = {name: [word] for name, word in words.items()}
    return answered(cost_steps(request_of({"currency": ["EUR"], **given}), ms(now)), store.ask)


def rate_on(quoted: Quoted, day: date) -> tuple[date, Fraction] | None:
    """The last rate by a day, of the seven days up to it."""
    for back in range(7):
        if (found := quoted.get(day - timedelta(days=back))) is not None:
            return day - timedelta(days=back), Fraction(found[0]) / Fraction(found[1])
    return None


def nearest(amount: Fraction) -> Decimal:
    return Decimal(round(amount * 10**9)).scaleb(-9)


def test_each_day_has_the_rate_of_its_day_and_parts_sum_to_the_whole(
    store: ClickHouseStore, quoted: Quoted
) -> None:
    whole = {row["period_start"]: row for row in asked(store, per="day").rows}
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in asked(store, per="day", by="cluster").rows:
        parts.setdefault(row["period_start"], []).append(row)
    assert len(whole) == DAYS
    missing = 0
    for start, row in whole.items():
        expected = rate_on(quoted, date.fromisoformat(start[:10]))
        if expected is None:
            missing += 1
            assert (row["cost"], row["rate_day"]) == (None, None)
            continue
        day, rate = expected
        assert (row["currency"], row["rate_day"]) == ("EUR", day.isoformat())
        assert Fraction(row["rate_units"]) / Fraction(row["rate_dollars"]) == rate
        assert row["cost"] == nearest(Fraction(row["cost_usd"]) * rate)
        assert sum(part["cost"] for part in parts[start]) == row["cost"]
    assert missing == 10
    assert "10 rows have no rate of EUR" in asked(store, per="day").note


def test_a_longer_cell_has_the_rate_of_its_last_day(store: ClickHouseStore, quoted: Quoted) -> None:
    october, november = asked(store, per="month").rows
    assert october["cost"] is None, "no rate of the last week of October"
    day, rate = rate_on(quoted, date(2026, 11, 9)) or pytest.fail("no rate")
    assert november["rate_day"] == day.isoformat()
    assert november["cost"] == nearest(Fraction(november["cost_usd"]) * rate)


@pytest.mark.parametrize(
    ("now", "month"),
    [
        (NOW, "2026-11"),  # it goes on, and has costs today
        (
            datetime(2026, 11, 24, 9, tzinfo=UTC),
            "2026-11",
        ),  # it goes on, and the newest costs are two weeks old
        (LATER, "2026-11"),  # it has ended, and its last days have no costs
    ],
)
def test_a_month_has_one_rate_in_costs_and_statements(
    store: ClickHouseStore, now: datetime, month: str
) -> None:
    put(
        store,
        {date(2026, 11, day): (Decimal(1), Decimal(day)) for day in (20, 24, 27)},
        "november",
        version=3,
    )
    wanted = rate_of(OpenMonthStore(store), "EUR", month, ms(now))
    first, until = days_of_month(month)
    spans = {"per": "month", "from": first}, {"from": first, "to": until}
    for found in (asked(store, now, **words).rows[0] for words in spans):
        assert {name: found[name] for name in wanted.record()} == wanted.record()
    assert wanted.day == {NOW: "2026-11-09", LATER: "2026-11-27"}.get(now, "2026-11-24")


def test_a_late_rate_restates_its_days_and_no_other(store: ClickHouseStore) -> None:
    before = {row["period_start"][:10]: row for row in asked(store, per="day").rows}
    put(store, {date(2026, 10, 8): (Decimal(1), Decimal("9.5"))}, "late", version=2)
    after = {row["period_start"][:10]: row for row in asked(store, per="day").rows}
    assert [day for day in after if after[day] != before[day]] == ["2026-10-08"]
    assert after["2026-10-08"]["cost_usd"] == before["2026-10-08"]["cost_usd"]


def test_dollars_need_no_rate_and_what_is_no_code_is_refused(store: ClickHouseStore) -> None:
    (row,) = answered(cost_steps(request_of({"currency": ["USD"]})), store.ask).rows
    assert (row["cost"], row["rate_units"], row["rate_dollars"]) == (row["cost_usd"], "1", "1")
    with pytest.raises(WrongUseError, match="no rate of CHF"):
        answered(cost_steps(request_of({"currency": ["CHF"]})), store.ask)
    for wrong in ("eur", "EURO", "€", "E'R", "A" * 100_000):
        with pytest.raises(WrongUseError, match=r"^currency: got"):
            request_of({"currency": [wrong]})


def test_budgets_have_both(store: ClickHouseStore, quoted: Quoted) -> None:
    answer: dict[str, Any] = {
        "as_of_ms": round(datetime(2026, 10, 7, 12, tzinfo=UTC).timestamp() * 1000),
        "budgets": [
            {
                "budget": "b",
                "used": {"ratio": 0.5, "usd": {"used": "50.000000000", "limit": "100.000000000"}},
            },
            {"budget": "hours", "used": {"ratio": 0.5, "usd": None}},
            {"budget": "new", "used": None},
        ],
    }
    found = answered(converted_steps(answer, "EUR", 0), store.ask)
    _, rate = rate_on(quoted, date(2026, 10, 7)) or pytest.fail("no rate")
    assert found["budgets"][0]["used"]["currency"] == {
        "used": f"{nearest(50 * rate):f}",
        "limit": f"{nearest(100 * rate):f}",
    }
    assert found["budgets"][1:] == answer["budgets"][1:]
    assert found["rate"]["rate_day"] == "2026-10-07"
    with pytest.raises(WrongUseError, match="currency: no rate of EUR"):
        answered(converted_steps({**answer, "as_of_ms": 1}, "EUR", 0), store.ask)
