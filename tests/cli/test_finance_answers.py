"""`coverage`, `savings` and `carbon`: sums by hand, and the same however the log is cut."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.command import trainfare

T0: Final = 1_790_812_800_000  # 2026-10-01 00:00 UTC
HOUR: Final = 3_600_000
INTENSITIES: Final = (
    "hour,region,g_per_kwh\n2026-10-01T00:00Z,eu,250.5\n2026-10-01T01:00Z,eu,100\n2026-10-01T00:00Z,us,400\n"
)


def event(topic: str, at_ms: int, **fields: Any) -> dict[str, Any]:
    value = {
        "id": f"{topic}-{at_ms}-{fields.get('job_id', fields.get('sku', fields.get('node')))}-{fields.get('type')}"
    }
    return {"topic": topic, "value": {**value, "source": "t", "time_ms": at_ms, **fields}}


def price(sku: str, component: str, usd: str, per: str, **match: str) -> dict[str, Any]:
    return event(
        "prices", T0 - HOUR, sku=sku, component=component, usd=usd, per=per, effective_ms=T0 - HOUR, **match
    )


def job(job_id: str, hours: int, **fields: Any) -> list[dict[str, Any]]:
    """Some hours from T0 on."""
    started = event("jobs", T0, job_id=job_id, type="started", **fields)
    return [started, event("jobs", T0 + hours * HOUR, job_id=job_id, type="completed")]


#: On demand $3.60 a GPU-hour, on spot $1.20, a watt-hour $0.00036.
LOG: Final = [
    price("od", "gpu", "3.6", "gpu_hour"),
    price("spot", "gpu", "1.2", "gpu_hour", purchase="spot"),
    price("energy", "compute", "0.00036", "instance_hour", instance_type="watt"),
    *job(
        "s1",
        2,
        gpu_count=2,
        purchase="spot",
        owner="ada",
        team="vision",
        project="p",
        labels={"cost_center": "42"},
    ),
    *job("s2", 1, gpu_count=1, purchase="spot", team="speech"),
    *job("d1", 1, gpu_count=1, team="vision", cluster="lab"),
    *job("e1", 2, instance_count=1_500, instance_type="watt", region="eu", team="edge"),
    *job("e2", 1, instance_count=333.333, instance_type="watt", region="us"),
    *job("e3", 2, instance_count=10, instance_type="watt", region="us"),
    event("nodes", T0, node="n1", type="provisioned", gpu_count=2, team="vision", cluster="lab"),
    event("nodes", T0 + 2 * HOUR, node="n1", type="terminated"),
]


def metered(folder: Path, log: list[dict[str, Any]], cuts: int = 1) -> Path:
    """A store of the log, in so many files."""
    size = -(-len(log) // cuts)
    paths = []
    for number in range(cuts):
        path = folder / f"{number}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in log[number * size : (number + 1) * size]))
        paths.append(path)
    done = trainfare("replay", *paths, "--data", folder / "meter")
    assert done.code == 0, done.err
    rates = folder / "carbon.csv"
    rates.write_text(INTENSITIES)
    done = trainfare("carbon", "load", rates, "--data", folder / "meter")
    assert done.code == 0, done.err
    assert "3 hours of regions; 3 new, 0 changed" in done.out
    return folder / "meter"


def said(data: Path, *words: str) -> Any:
    done = trainfare(*words, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return metered(tmp_path_factory.mktemp("answers"), LOG)


def test_shares_of_cost_with_each_name(data: Path) -> None:
    """By hand: spot 4.80 + 1.20, on demand 3.60, energy (3,000 + 333.333 + 20) Wh x $0.00036."""
    (row,) = said(data, "coverage", "--per", "all")
    assert Decimal(row["cost_usd"]) == Decimal("10.80719988")
    assert (
        row["owner_ratio"]
        == row["project_ratio"]
        == row["cost_centre_ratio"]
        == pytest.approx(4.8 / 10.80719988, abs=1e-6)
    )
    assert row["team_ratio"] == pytest.approx((4.8 + 1.2 + 3.6 + 1.08) / 10.80719988, abs=1e-6)
    worst = [each for each in said(data, "coverage", "--worst") if each["name"] == "team"]
    assert [(each["jobs"], Decimal(each["cost_usd"]), each["dearest_job"]) for each in worst] == [
        (2, Decimal("0.12719988"), "e2")
    ]


def test_spot_savings_are_the_sum_of_the_estimates(data: Path) -> None:
    rows = [each for each in said(data, "savings") if each["saving"] == "spot_realised"]
    one_by_one = [Decimal(said(data, "estimate", "--of", name)["saved_usd"]) for name in ("s1", "s2")]
    assert one_by_one == [Decimal("9.6"), Decimal("2.4")]
    assert [(each["team"], Decimal(each["usd"])) for each in rows] == [
        ("vision", Decimal("9.6")),
        ("speech", Decimal("2.4")),
    ]
    assert Decimal(rows[0]["usd_per_month"]) == 3_504  # of 2 hours, to 730


def test_idle_nodes_are_dollars_a_month_with_the_evidence(data: Path) -> None:
    """Two GPUs for two hours at $3.60, on which no job says that it runs."""
    rows = said(data, "savings", "--no-spot")
    assert [(each["saving"], each["name"], each["team"], Decimal(each["usd"])) for each in rows] == [
        ("idle_nodes", "lab", "vision", Decimal("14.4"))
    ]
    assert rows[0]["evidence"] == "100.0 % of 14.40 USD that nodes cost, in 2.0 node-hours"


def test_carbon_is_energy_times_the_intensity_of_its_hour_and_region(data: Path) -> None:
    """By hand: eu 1.5 kWh x 250.5 + 1.5 x 100; us (0.333333 + 0.01) kWh x 400, and 10 Wh of an hour without one."""
    eu, us = said(data, "carbon", "show", "--per", "all")
    assert (eu["region"], Decimal(eu["co2e_g"]), Decimal(eu["energy_wh"])) == (
        "eu",
        Decimal("525.75"),
        Decimal(3_000),
    )
    assert Decimal(us["co2e_g"]) == Decimal("137.3332")
    assert (Decimal(us["energy_wh"]), Decimal(us["without_intensity_wh"])) == (
        Decimal("353.333"),
        Decimal(10),
    )
    assert Decimal(eu["cost_usd"]) == Decimal("1.08")


def test_days_of_another_zone_sum_to_the_same(data: Path) -> None:
    """02:00 of UTC is 11:00 in Tokyo, 16:00 the day before in Honolulu: one day each."""
    zones = {"Asia/Tokyo": "2026-10-01T00:00:00+09:00", "Pacific/Honolulu": "2026-09-30T00:00:00-10:00"}
    for zone, start in zones.items():
        for words, usd in (
            (("coverage",), "10.80719988"),
            (("carbon", "show", "--by", "region"), "1.20719988"),
        ):
            rows = said(data, *words, "--per", "day", "--tz", zone)
            assert {row["period_start"] for row in rows} == {start}
            assert sum(Decimal(row["cost_usd"]) for row in rows) == Decimal(usd)
    rows = said(data, "savings", "--no-spot", "--from", "2026-10-01", "--tz", "Pacific/Honolulu")
    assert rows == []  # its first of October begins at 10:00 of UTC


def test_the_same_however_the_log_is_cut(data: Path, tmp_path: Path) -> None:
    shuffled = LOG[:]
    random.Random(46).shuffle(shuffled)
    other = metered(tmp_path, shuffled, cuts=3)
    for words in (("coverage",), ("coverage", "--worst"), ("savings",), ("carbon", "show")):
        assert said(data, *words) == said(other, *words), words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b\n1,2\n", "is no file of carbon intensities"),
        ("hour,region,g_per_kwh\n", "has no intensities"),
        ("hour,region,g_per_kwh\n2026-10-01T00:30Z,eu,1\n", "line 2: hour: '2026-10-01T00:30Z' is no whole hour"),
        ("hour,region,g_per_kwh\nnow,eu,1\n", "line 2: hour: 'now' is no instant"),
        ("hour,region,g_per_kwh\n2026-10-01,eu,-1\n", "line 2: g_per_kwh: '-1', expected grams from 0 to 10000"),
        ("hour,region,g_per_kwh\n2026-10-01,eu,250000\n", "line 2: g_per_kwh: '250000', expected grams"),
        ("hour,region,g_per_kwh\n2026-10-01,eu,NaN\n", "line 2: g_per_kwh: 'NaN' is no number"),
        ("hour,region,g_per_kwh\n2026-10-01,,1\n", "line 2: region: expected the region"),
        ("hour,region,g_per_kwh\n2026-10-01,eu,1\n2026-10-01,eu,2\n", "line 3: another intensity of eu in that hour"),
    ],
)  # fmt: skip
def test_what_is_no_intensity_is_refused_by_line(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(text)
    done = trainfare("carbon", "load", path, "--data", tmp_path / "meter")
    assert (done.code, reason in done.err) == (2, True), done.err


@pytest.mark.parametrize("words", [("costs",), ("idle",), ("coverage",), ("savings",), ("carbon", "show")])
def test_an_empty_answer_says_of_which_time_the_store_has_costs(data: Path, words: tuple[str, ...]) -> None:
    done = trainfare(*words, "--from", "2031-01-01", "--data", data, "--format", "table")
    assert done.code == 0
    assert "the store has hours from 2026-10-01 to 2026-10-01" in done.err
