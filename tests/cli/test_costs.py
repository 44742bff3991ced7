"""`trainfare costs` as a user sees it: options, refusals, and tables for people."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streams.cli.costs_shown import grid_of, shown
from streams.cli.output import Usd
from streams.costs.answer import CostRows
from streams.costs.request import LEVELS, request_of
from tests.cli.command import trainfare

T0_MS = 1_780_308_000_000  # 2026-06-01 10:00:00 UTC, a Monday
HOUR_MS = 3_600_000


def event(topic: str, hour: float, **value: object) -> str:
    """Return a line of a file."""
    at_ms = T0_MS + round(hour * HOUR_MS)
    body = {"source": "t", "id": f"{hour}-{value.get('job_id')}", "time_ms": at_ms, **value}
    return json.dumps({"topic": topic, "value": body}) + "\n"


#: Two jobs of two teams, one of them nobody's; no samples.
LINES = [
    event("prices", 0, sku="gpu", component="gpu", usd="3", per="gpu_hour", effective_ms=0),
    event("nodes", 0, node="n1", type="provisioned", gpu_count=1, team="vision"),
    event("jobs", 0, job_id="a", type="started", gpu_count=1, team="vision", owner="ada"),
    event("jobs", 0, job_id="b", type="started", gpu_count=1, team="speech"),
    event("jobs", 0.5, job_id="b", type="failed", reason="out_of_memory"),
    event("jobs", 1, job_id="a", type="completed"),
    event("nodes", 1, node="n1", type="terminated"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("costs")
    (root / "events.jsonl").write_text("".join(LINES))
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter"


def asked(data: Path, *words: object) -> Any:
    done = trainfare("costs", *words, "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def table(data: Path, *words: object) -> list[list[str]]:
    done = trainfare("costs", *words, "--data", data)
    assert (done.code, done.err) == (0, "")
    return [line.split() for line in done.out.splitlines()]


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("costs", ("--by", "team", "--by", "owner")),
        ("costs", ("--by", "team,owner")),
        ("chargeback", ("--month", "2026-06", "--by", "team", "--by", "owner")),
        ("chargeback", ("--month", "2026-06", "--by", "team,owner")),
        ("idle", ("--by", "team", "--by", "node")),
        ("idle", ("--by", "team,node")),
        ("bills reconcile", ("--by", "day", "--by", "sku")),
        ("bills reconcile", ("--by", "day,sku")),
    ],
)
def test_by_is_repeated_or_takes_commas(data: Path, command: str, more: tuple[str, ...]) -> None:
    done = trainfare(*command.split(), *more, "--data", data, "--format", "csv")
    assert done.code == 0, done.err
    assert done.out.startswith(",".join(more[more.index("--by") + 1 :: 2]) + ",")


@pytest.mark.parametrize("command", ["costs", "chargeback --month 2026-06", "idle", "bills reconcile"])
def test_a_level_that_is_none_or_twice_is_refused(command: str) -> None:
    for names in (("colour",), ("team", "team"), ("day,day",)):
        done = trainfare(*command.split(), *(word for name in names for word in ("--by", name)))
        assert done.code == 2
        assert done.one_line().startswith("trainfare: --by")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "tomorrow"), "--from: 'tomorrow' is no date"),
        (("--from", "2026-06-02", "--to", "2026-06-01"), "--from: must be before --to"),
        (("--compare", "previous"), "--compare: needs --from and --to, or --per hour"),
        (("--drivers", "3"), "--drivers: needs --compare previous, --from and --to"),
        (("--slo-usd-per-hour", "4"), "--slo-usd-per-hour: is of metric m10"),
        (("--metric", "m10", "--slo-target", "2"), "--slo-target: got '2'"),
        (("--by", "path"), "--by: level path is of metric m7"),
        (("--by", "component"), "--by: component is no level of costs; ask the view ledger for it: trainfare sql"),
        (("--where", "phase=starting"), "--where: phase is no level of costs"),
        (
            ("--from", "2026-06-02", "--to", "2026-06-03", "--compare", "previous", "--drivers", "3", "-f", "csv"),
            "--format csv holds one table: leave out --drivers, or use --format json",
        ),
    ],
)  # fmt: skip
def test_a_refusal_names_the_option_as_it_is_written(words: tuple[str, ...], said: str) -> None:
    done = trainfare("costs", *words)
    assert done.code == 2
    assert done.one_line().startswith(f"trainfare: {said}")


def test_idle_names_its_options_too() -> None:
    assert (
        "--from: must be before --to"
        in trainfare("idle", "--from", "2026-06-02", "--to", "2026-06-01").one_line()
    )


def test_the_help_lists_every_level_and_what_drivers_need() -> None:
    done = trainfare("costs", "--help", env={"COLUMNS": "200"})
    words = set(done.out.replace("│", " ").replace(",", " ").replace(";", " ").replace(".", " ").split())
    assert set(LEVELS) <= words
    assert "--compare previous, --from and --to" in " ".join(done.out.replace("│", " ").split())


def test_what_was_not_sampled_is_unknown(data: Path) -> None:
    (row,) = asked(data, "--metric", "m8")
    assert (row["coverage_ratio"], row["gpu_h"]) == (0, 1.5)
    unknown = (
        "productive_gpu_h",
        "productive_ratio",
        "tensor_gpu_h",
        "tensor_ratio",
        "usd_per_tensor_gpu_hour",
    )
    assert [row[name] for name in unknown] == [None] * len(unknown)


def test_a_table_is_for_people(data: Path) -> None:
    words = ("--by", "owner")
    assert table(data, *words) == [
        ["owner", "cost_usd", "gpu_cost_usd", "lost_cost_usd", "wall_clock_h", "gpu_h"],
        ["ada", "3.00", "3.00", "0.00", "1.000", "1.000"],
        ["(none)", "1.50", "1.50", "1.50", "0.500", "0.500"],
        ["Total", "4.50", "4.50", "1.50"],
    ]
    assert {row["owner"] for row in asked(data, *words)} == {"ada", ""}
    assert table(data, "--per", "week", "--metric", "m1") == [
        ["period_start", "cost_usd", "wall_clock_h", "usd_per_hour", "infra_usd_per_hour", "jobs", "median_usd_per_hour", "p95_usd_per_hour"],
        ["2026-06-01", "4.50", "1.500", "3.00", "3.00", "2", "3.00", "3.00"],
    ]  # fmt: skip
    assert table(data, "--per", "hour")[1][0] == "2026-06-01T10:00:00Z"


def cells(*usd: str, **more: object) -> CostRows:
    rows = [{"team": f"t{at}", "period_start": None, "cost_usd": Decimal(each), "gpu_h": 1.0, "usd_per_hour": 2.0, **more} for at, each in enumerate(usd)]  # fmt: skip
    return CostRows(tuple(rows[0]), rows, is_cut=False)


def test_a_total_is_exact_and_of_dollars_alone() -> None:
    request = request_of({"by": ["team"]})
    found = cells(*["0.333333333"] * 3)
    grid = shown(request, found)
    assert grid.columns == ("team", "cost_usd", "gpu_h", "usd_per_hour")
    assert [*map(str, grid.rows[-1])] == ["Total", "1.0000", "", ""]
    total = grid.rows[-1][1]
    assert isinstance(total, Usd)
    assert total.amount == Decimal("0.999999999")
    assert shown(request, found, has_bars=True).rows[-1][:3] == ["Total", "1.0000", ""]
    assert len(shown(request, cells("1")).rows) == 1
    assert len(shown(request, found._replace(is_cut=True)).rows) == 3
    assert len(grid_of(found).rows) == 3


def test_a_total_is_in_a_currency_where_all_rows_have_one_rate() -> None:
    request = request_of({"by": ["team"], "currency": ["JPY"]})
    rate = {"cost": Decimal("163.4"), "currency": "JPY", "rate_day": "2026-10-30"}
    found = cells("1", "2", **rate)
    at = shown(request, found).columns.index("cost")
    assert [row[at] for row in shown(request, found).rows] == ["163", "163", "327"]
    found.rows[1]["rate_day"] = "2026-10-29"
    assert [row[at] for row in shown(request, found).rows] == ["163", "163", ""]
    found = cells("1", "2", **dict.fromkeys(rate))
    assert [row[at] for row in shown(request, found).rows] == ["no rate", "no rate", ""]


def test_rows_that_are_cut_are_said_with_what_shows_them(data: Path) -> None:
    words = ("costs", "--by", "owner", "--limit", "1", "--data", data)
    done = trainfare(*words)
    assert [line.split()[0] for line in done.out.splitlines()] == ["owner", "ada"]
    fewer = "ask for fewer levels (--by), longer periods (--per) or a part (--where)\n"
    assert done.err == f"trainfare: only 1 row is shown, and no total: give a larger --limit (10,000 at most), or {fewer}"  # fmt: skip
    span = ("--from", "2026-06-01T11:00", "--to", "2026-06-01T12:00", "--compare", "previous")
    assert trainfare(*words, *span).err == "trainfare: only 1 of 2 rows are shown, and no total: --limit 2 shows all\n"  # fmt: skip
    assert "total" not in trainfare(*words, "--format", "csv").err


def test_a_first_week_is_no_rise(data: Path) -> None:
    done = trainfare("costs", "--per", "week", "--compare", "previous", "--data", data)
    assert (
        done.err == "trainfare: not compared: costs begin at 2026-06-01T10:00:00Z, there is no time before\n"
    )
    (row,) = csv.DictReader(
        trainfare("costs", "--per", "week", "--compare", "previous", "--data", data, "--format", "csv").out.splitlines()
    )  # fmt: skip
    changes = ("cost_usd", "previous_cost_usd", "change_usd", "change_ratio")
    assert [row[name] for name in changes] == ["4.500000000", "", "", ""]


def test_an_empty_answer_says_what_there_is(data: Path) -> None:
    for more in ((), ("--metric", "m3")):
        done = trainfare("costs", "--where", "team=nobody", *more, "--data", data)
        assert (done.code, done.err) == (
            0, "nothing matches; the store has hours from 2026-06-01 to 2026-06-01\n",
        )  # fmt: skip
    assert asked(data, "--where", "team=nobody") == []


def test_a_day_of_a_zone_is_one_cell_in_every_format_and_a_month_is_charged_by_it(data: Path) -> None:
    zone = ("--tz", "Pacific/Kiritimati", "--per", "day")  # 10:00 UTC is midnight
    (row,) = asked(data, *zone)
    assert (row["period_start"], row["period_hours"]) == ("2026-06-02T00:00:00+14:00", 24)
    heads, cells = (
        line.split(",") for line in trainfare("costs", *zone, "--data", data, "--format", "csv").out.split()
    )
    assert dict(zip(heads, cells, strict=True))["period_start"] == row["period_start"]
    assert table(data, *zone)[1][0] == "2026-06-02"
    month = ("chargeback", "--month", "2026-06", "--data", data, "--format", "json")
    utc, berlin = (json.loads(trainfare(*month, "--tz", each).out) for each in ("UTC", "Europe/Berlin"))
    assert berlin == {**utc, "tz": "Europe/Berlin"}
    idle = trainfare("idle", *zone, "--data", data, "--format", "json")
    assert [row["period_start"] for row in json.loads(idle.out)] == ["2026-06-02T00:00:00+14:00"]


@pytest.mark.parametrize("command", ["costs", "idle", "chargeback --month 2026-06"])
def test_what_is_no_zone_is_refused(data: Path, command: str) -> None:
    done = trainfare(*command.split(), "--tz", "../../etc/passwd", "--data", data)
    assert (done.code, done.out) == (2, "")
    assert "--tz: '../../etc/passwd' is no time zone" in done.err


def test_gpu_hours_without_a_price_are_named_by_type_with_what_mends_it(tmp_path: Path) -> None:
    jobs = [(f"j{at}", f"G{at}", 1 + at) for at in range(5)]
    lines = [
        event("jobs", 0, job_id=name, type="started", gpu_count=gpus, gpu_type=kind)
        for name, kind, gpus in jobs
    ]
    ends = [event("jobs", 1, job_id=name, type="completed") for name, *_ in jobs]
    (tmp_path / "events.jsonl").write_text("".join(lines + ends))
    assert trainfare("replay", tmp_path / "events.jsonl", "--data", tmp_path / "meter").code == 0
    done = trainfare("costs", "--by", "job", "--data", tmp_path / "meter")
    types = "5.000 of G4, 4.000 of G3, 3.000 of G2, 3.000 of 2 more"
    mends = "`trainfare prices load FILE` loads prices (docs/prices.md, Load a list)"
    assert (
        done.err == f"trainfare: 15.000 GPU-hours have no price, and are not in the cost: {types}; {mends}\n"
    )
