"""The forecast of a month: its figures on made and real months, and what commands and the API say over a real store."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest.forecast_backtest import Past, figures, forecast, helios, made
from streams.costs.forecast import Rest, bounds_of, expected_hours, misses, rest_of, within
from streams.costs.month_forecast import forecast_request
from streams.errors import WrongUseError
from tests.cli.command import ROOT, trainfare

HELIOS = ROOT.parent / "shared" / "data" / "jobs" / "helios_15000_jobs.csv"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
T0_MS = 1_788_220_800_000  # 2026-09-01 00:00 UTC


def test_what_is_steady_goes_on() -> None:
    steady = np.full(20 * 24, 5.0)
    rest = rest_of(steady, 490_000, 240, (-1.0, 1.0))
    assert rest.expected == pytest.approx(1200)
    assert rest.low < 1200 < rest.high


@pytest.mark.parametrize("days", [28, 40])
def test_who_cost_something_long_ago_alone_has_a_range(days: int) -> None:
    """Its level is above 0, so its forecast is; the part of a day at the beginning is of no whole day."""
    past = np.zeros(days * 24 + 14)
    past[:10] = 1.0
    rest = rest_of(past, 490_000, 720, (-1.6, 2.0))
    assert rest.low < rest.expected < rest.high


def test_hours_and_weekends_have_a_season() -> None:
    hours = 490_008 + np.arange(42 * 24)
    works = (hours % 24 >= 9) & (hours % 24 < 17) & ((hours // 24 + 3) % 7 < 5)
    past = np.where(works, 10.0, 0.0)
    coming = expected_hours(past, int(hours[-1]) + 1, 14 * 24)
    after = int(hours[-1]) + 1 + np.arange(14 * 24)
    busy = (after % 24 >= 9) & (after % 24 < 17) & ((after // 24 + 3) % 7 < 5)
    assert coming[busy].mean() > 8 * coming[~busy].mean()
    assert coming.sum() == pytest.approx(busy.sum() * 10, rel=0.1)


def test_what_jobs_pay_now_lasts_as_long_as_they_go_on() -> None:
    past = np.full(28 * 24, 1.0)
    past[-24:] = 11.0
    short, long = (expected_hours(past, 490_000, 480, left_h).sum() for left_h in (5.0, 100.0))
    assert 480 < short < long
    assert long - short == pytest.approx(9.5 * (100 * (1 - np.exp(-4.8)) - 5), rel=0.1)


def test_nothing_is_below_zero_and_an_end_has_no_range() -> None:
    rest = rest_of(np.r_[np.zeros(200), np.full(40, 9.0)], 490_000, 300, (-9.0, 9.0))
    assert rest.low == 0.0
    assert rest_of(np.ones(48), 490_000, 0, (-1.0, 1.0)) == (0.0, 0.0, 0.0)
    assert misses(np.zeros(400), 490_000, 10) == []


def test_no_range_of_a_part_ends_above_that_of_the_whole() -> None:
    whole = Rest(100.0, 50.0, 200.0)
    assert within(Rest(10.0, 0.0, 5_000.0), whole) == (10.0, 0.0, 200.0)
    assert within(Rest(10.0, 0.0, 30.0), whole) == (10.0, 0.0, 30.0)
    assert within(Rest(300.0, 0.0, 5_000.0), whole) == (300.0, 0.0, 300.0)  # never under what is expected


def test_few_earlier_misses_say_nothing_and_a_longer_past_may_be_surer() -> None:
    assert bounds_of([9.0] * 5, 240) == bounds_of([], 240)
    first, later = bounds_of([], 240), bounds_of([0.0] * 100, 60 * 24)
    assert first[0] < later[0] < 0 < later[1] < first[1]
    assert bounds_of([7.0] * 100, 60 * 24)[1] == 7.0


def test_a_few_days_do_not_say_by_how_much_days_differ() -> None:
    found = {days: rest_of(np.full(days * 24, 5.0), 490_000, 240, (-0.1, 0.1)) for days in (1, 4, 7, 8)}
    assert found[1].high == pytest.approx(1200 + 0.32 * 120 * 10**0.75)
    assert found[1].high - 1200 == pytest.approx(4**0.45 * (found[4].high - 1200))
    assert found[1].low == pytest.approx(1200 - 0.25 * 120 * 10**0.75)
    assert 1200 - found[1].low == pytest.approx(2 * (1200 - found[4].low))
    assert found[7].high - 1200 > 2 * (found[8].high - 1200)


def test_above_few_days_leave_more_room_than_below() -> None:
    """On day 5 of a fleet that has run for long, at least three quarters of the months of few large jobs are in the range."""
    months = []
    for seed in range(3):
        past = made(seed, philly=True)
        for begin in (30, 40, 50):
            known = {team: hours[begin * 24 : (begin + 31) * 24] for team, hours in past.hours.items()}
            months += forecast(Past(known, past.first_hour + begin * 24), 5, 31)
    found = figures(months)
    assert 0.75 <= found.coverage <= 0.90
    assert found.width < 2


@pytest.mark.parametrize("day", [1, 3])
def test_in_the_first_days_of_a_meter_the_range_holds_as_well(day: int) -> None:
    """The fleet has run for long, and nobody metered it."""
    months = []
    for philly in (False, True):
        past = made(0, philly=philly)
        known = {team: hours[40 * 24 : 71 * 24] for team, hours in past.hours.items()}
        months += forecast(Past(known, past.first_hour + 40 * 24), day, 31)
    assert 0.7 <= figures(months).coverage <= 0.95


@pytest.mark.parametrize("philly", [False, True])
@pytest.mark.parametrize("is_first", [True, False])
def test_on_day_10_the_true_month_is_in_the_range_for_75_to_90_percent_of_team_months(
    philly: bool, is_first: bool
) -> None:
    months = []
    for seed in range(8):
        past = made(seed, philly=philly)
        if is_first:
            cut = {team: hours[: 31 * 24] for team, hours in past.hours.items()}
            months += forecast(Past(cut, past.first_hour), 10, 31)
        else:
            months += forecast(past, 70, 90)
    found = figures(months)
    assert found.months == 192
    assert 0.75 <= found.coverage <= 0.90
    assert found.error < 0.35


@pytest.mark.skipif(not HELIOS.exists(), reason="the trace of Helios is not there")
def test_the_same_of_real_jobs() -> None:
    found = figures([each for teams in (12, 24) for each in forecast(helios(HELIOS, teams), 10, 20)])
    assert 0.75 <= found.coverage <= 0.90
    assert found.error < 0.25


def event(topic: str, at_ms: int, **value: object) -> str:
    body = {
        "source": "t",
        "id": f"{at_ms}-{value.get('job_id')}-{value.get('sku')}-{value.get('name')}",
        "time_ms": at_ms,
        **value,
    }
    return json.dumps({"topic": topic, "value": body}) + "\n"


def replayed(root: Path, *more: str) -> Path:
    """Team vision holds a GPU at $2 all the time, speech one at $3 for 12 h a day; on 10 September at noon; spot of the first costs a quarter."""
    common: dict[str, Any] = {"component": "gpu", "per": "gpu_hour", "effective_ms": 0}
    on_demand = {"gpu_count": 1, "purchase": "on_demand"}
    lines = [
        event("prices", T0_MS, sku="a", usd="2", gpu_type="A", purchase="on_demand", **common),
        event("prices", T0_MS, sku="b", usd="3", gpu_type="B", purchase="on_demand", **common),
        event("prices", T0_MS, sku="as", usd="0.5", gpu_type="A", purchase="spot", **common),
        event("controls", T0_MS, kind="budget", name="tight", team="vision", usd="1000", per="month"),
        event("controls", T0_MS, kind="budget", name="wide", team="speech", usd="9000", per="month"),
        event("controls", T0_MS, kind="budget", name="all", usd="2000", per="month"),
        event("jobs", T0_MS, job_id="v", type="started", team="vision", gpu_type="A", **on_demand),
    ]
    for day in range(10):
        at_ms = T0_MS + day * DAY_MS
        lines.append(
            event("jobs", at_ms, job_id=f"s{day}", type="started", team="speech", gpu_type="B", **on_demand)
        )
        if day < 9:
            lines.append(event("jobs", at_ms + 12 * HOUR_MS, job_id=f"s{day}", type="completed"))
    lines += [event("jobs", T0_MS + 9 * DAY_MS + 12 * HOUR_MS, job_id="s9", type="completed"), *more]
    (root / "events.jsonl").write_text("".join(lines))
    done = trainfare(
        "replay",
        root / "events.jsonl",
        "--data",
        root / "meter",
        "--as-of",
        T0_MS + 9 * DAY_MS + 12 * HOUR_MS,
    )
    assert done.code == 0, done.err
    return root / "meter"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replayed(tmp_path_factory.mktemp("forecast"))


def asked(data: Path, *words: object) -> Any:
    done = trainfare("forecast", *words, "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_a_month_by_team_with_its_budgets(data: Path) -> None:
    found = asked(data)
    assert (found["month"], found["left_h"], found["basis_days"]) == ("2026-09", 20 * 24 + 12, 9)
    rows = {row["team"]: row for row in found["rows"]}
    costs = json.loads(trainfare("costs", "--by", "team", "--data", data, "--format", "json").out)
    assert {row["team"]: row["cost_usd"] for row in costs} == {
        name: row["spent_usd"] for name, row in rows.items()
    }
    assert float(rows["vision"]["spent_usd"]) == pytest.approx(2 * (9 * 24 + 12))
    assert float(rows["vision"]["forecast_usd"]) == pytest.approx(2 * 720, rel=0.02)
    assert float(rows["speech"]["forecast_usd"]) == pytest.approx(3 * 30 * 12, rel=0.15)
    total = found["total"]
    assert Decimal(total["spent_usd"]) == sum(Decimal(row["spent_usd"]) for row in rows.values())
    for row in (*rows.values(), total):
        low, mid, high = (Decimal(row[name]) for name in ("low_usd", "forecast_usd", "high_usd"))
        assert Decimal(row["spent_usd"]) <= low <= mid <= high
    holds = {each["budget"]: each["holds"] for row in (*rows.values(), total) for each in row["budgets"]}
    assert holds["wide"] == "yes"
    assert holds["tight"] == "no"
    assert holds["all"] in ("no", "unsure")


def test_what_another_share_of_spot_would_change(data: Path) -> None:
    found = asked(data, "--spot-share", "0.5", "--where", "team=vision")
    (row,) = found["rows"]
    spent, mid, other = (Decimal(row[name]) for name in ("spent_usd", "forecast_usd", "what_if_usd"))
    expected = spent + (mid - spent) * (Decimal(2) + Decimal("0.5")) / 2 / 2
    assert abs(other - expected) <= Decimal("0.01")
    assert Decimal(found["total"]["what_if_usd"]) < Decimal(found["total"]["forecast_usd"])
    assert found["what_if"] == ["50% of GPU cost on spot"]


def test_a_fiscal_month_in_a_zone_and_a_table(data: Path) -> None:
    found = asked(data, "--tz", "Asia/Tokyo")
    assert (found["month_start"], found["month_end"]) == (
        "2026-09-01T00:00:00+09:00",
        "2026-10-01T00:00:00+09:00",
    )
    done = trainfare("forecast", "--data", data)
    assert done.out.splitlines()[0].split() == [
        "team",
        "spent_usd",
        "forecast_usd",
        "low_usd",
        "high_usd",
        "budgets",
    ]
    assert "tight 1,000.00: does not hold" in done.out
    assert "2026-09, 492 h left from 2026-09-10T12:00:00Z on; range of 80 %; by 9 days" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "job"), "--by: got 'job', expected one of owner"),
        (("--spot-share", "2"), "--spot-share: got '2', expected a share from 0 to 1"),
        (("--spot-share", "1e-99999999999999999"), "--spot-share: got"),
        (("--idle-cut", "nan"), "--idle-cut: got 'nan'"),
        (("--instance", "x" * 300), "--instance: expected a name"),
        (("--where", "cluster=a"), "--where: a forecast is of owner"),
        (("--where", "team=vision", "--idle-cut", "0.5"), "idle_cut: idle nodes are nobody's"),
        (("--tz", "../x"), "--tz: '../x' is no time zone"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_line(data: Path, words: tuple[str, ...], said: str) -> None:
    done = trainfare("forecast", *words, "--data", data)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_place_without_a_price_is_named(data: Path) -> None:
    done = trainfare("forecast", "--spot-share", "1", "--data", data)
    assert (done.code, done.out) == (1, "")
    assert "no price of GPU-time applies to gpu_type=B, purchase=spot" in done.err.replace(
        "purchase=spot, gpu_type=B", "gpu_type=B, purchase=spot"
    )


def test_unknown_parameters_are_named() -> None:
    with pytest.raises(WrongUseError, match="parameter 'per' is unknown"):
        forecast_request({"per": ["day"]})
    with pytest.raises(WrongUseError, match="by: given twice"):
        forecast_request({"by": ["team", "owner"]})


def plan(name: str, usd: str, from_h: float, until_h: float, **match: str) -> str:
    """A planned rate from so many hours after 10 September at noon."""
    noon_ms = T0_MS + 9 * DAY_MS + 12 * HOUR_MS
    hours = {"from_ms": round(noon_ms + from_h * HOUR_MS), "until_ms": round(noon_ms + until_h * HOUR_MS)}
    return event("controls", T0_MS, kind="planned", name=name, usd_per_hour=usd, **hours, **match)


def test_planned_runs_of_next_week_raise_the_forecast(data: Path, tmp_path: Path) -> None:
    """Those that have not begun, once, in the rest of the month, for the team that they or their job name."""
    planned = replayed(
        tmp_path,
        plan("a", "5", 168, 192.5, job_id="wide", team="vision"),
        plan("b", "7", 180, 193, job_id="wide", team="vision"),  # for half an hour more: a comes first
        plan("c", "1000000", -24, 400, job_id="v"),  # runs already: it is in the level
        plan("d", "2", 492 - 10, 492 + 100, job_id="queued"),  # ten hours of this month
        plan("e", "3", 100, 110, job_id="new", team="video"),
        plan("f", "9", 100, 110, team="speech"),  # of each job of a team: nobody knows how many
        plan("g", "4", 100, 110, job_id="gone", team="vision"),
        plan("g", "4", -20, -10, job_id="gone", team="vision").replace('"id": "', '"id": "newer-'),  # the newest of a name holds
        event("jobs", T0_MS + 9 * DAY_MS + 12 * HOUR_MS, job_id="queued", type="queued", team="speech"),
    )  # fmt: skip
    before, after = asked(data), asked(planned)
    extra = {
        "vision": Decimal("5") * Decimal("24.5") + Decimal("7") / 2,
        "speech": Decimal(20),
        "video": Decimal(30),
    }
    was = {row["team"]: row for row in before["rows"]}
    for row in after["rows"]:
        assert Decimal(row["planned_usd"]) == extra[row["team"]]
        for name in ("forecast_usd", "low_usd", "high_usd"):
            old = Decimal(was[row["team"]][name]) if row["team"] in was else Decimal(0)
            assert Decimal(row[name]) - old == extra[row["team"]], (row["team"], name)
    assert {row["team"] for row in after["rows"]} == set(extra)
    for name in ("forecast_usd", "low_usd", "high_usd"):
        moved = Decimal(after["total"][name]) - Decimal(before["total"][name])
        assert moved == sum(extra.values()) == Decimal(after["total"]["planned_usd"])
    (only,) = asked(planned, "--where", "team=video")["rows"]
    assert Decimal(only["planned_usd"]) == 30
    shown = trainfare("forecast", "--data", planned).out.splitlines()[0].split()
    assert shown[:3] == ["team", "spent_usd", "planned_usd"]
