"""The figures of the API, asked over HTTP of a real store, are those worked out by hand."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from schemas.tables import BURN_RATES, JOB_HOURS
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from streams.web import queries
from tests.web.live import SECRET_RECEIVER, only_ours
from tests.web.log import AS_OF_MS, COST_A, ODD_ID, T0_MS
from tests.web.serving import Client, served

MINUTE_MS = 60_000


def get(store: ClickHouseStore, path: str) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(path)

    return served(store, work)


def ids(answer: dict[str, Any]) -> list[str]:
    return [job["job_id"] for job in answer["jobs"]]


def test_jobs_by_burn_rate_with_their_costs(store: ClickHouseStore) -> None:
    answer = get(store, "/api/v1/jobs")
    assert answer["as_of_ms"] == AS_OF_MS
    assert ids(answer) == ["b", "a", "z", ODD_ID]
    burning, ended, waiting, unpriced = answer["jobs"]
    assert burning == burning | {
        "owner": "bob",
        "team": "speech",
        "state": "running",
        "attempts": 2,
        "gpu_count": 2.0,
        "region": "eu-1",
        "gpu_type": "H100",
        "started_ms": T0_MS + 200_000,
        "ended_ms": None,
        "usd_per_hour_now": "12.500000001",
        "usd_per_hour": "10.000000000",
        "usd_per_hour_1h": "7.000000000",
        "expected_usd_per_hour": "5.000000000",
        "ratio": 2.5000000002,
        "productive_ratio": 0.25,
        "sparkline": [
            [AS_OF_MS - 3 * MINUTE_MS, 5.0],
            [AS_OF_MS - 2 * MINUTE_MS, 6.0],
            [AS_OF_MS, 10.0],
        ],
        "alerts": [{"alert_id": "al_1", "rule": "burn_fast", "severity": "page", "status": "firing"}],
    }
    # 60 s of one GPU, then 300 s of two: 660 GPU-seconds at $2.50.
    assert burning["gpu_h"] == pytest.approx(660 / 3600)
    assert Decimal(burning["cost_usd"]) == pytest.approx(
        Decimal(660) / 3600 * Decimal("2.5"), abs=Decimal("1e-8")
    )
    assert Decimal(burning["lost_cost_usd"]) == pytest.approx(Decimal("0.041666667"), abs=Decimal("1e-8"))
    assert (ended["cost_usd"], ended["state"], ended["experiment"]) == (COST_A, "completed", "e")
    assert (ended["started_ms"], ended["ended_ms"]) == (T0_MS + 30_000, T0_MS + 180_000)
    assert (waiting["state"], waiting["started_ms"], waiting["cost_usd"]) == ("queued", None, "0.000000000")
    assert waiting["usd_per_hour_now"] == "0.000000000", "its rate is 12 minutes old"
    assert (waiting["ratio"], waiting["productive_ratio"], waiting["alerts"]) == (None, None, [])
    assert (unpriced["cost_usd"], unpriced["gpu_h"]) == ("0.000000000", pytest.approx(120 / 3600))
    assert unpriced["unpriced_gpu_h"] == pytest.approx(120 / 3600)
    assert (burning["unpriced_gpu_h"], waiting["unpriced_gpu_h"]) == (0, 0)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("order=cost", ["a", "b", "z", ODD_ID]),
        ("order=name", ["a", "b", "z", ODD_ID]),
        ("state=running", ["b"]),
        ("owner=ada", ["a"]),
        ("team=speech&state=completed", []),
        ("limit=2", ["b", "a"]),
    ],
)
def test_orders_and_filters(store: ClickHouseStore, query: str, expected: list[str]) -> None:
    assert ids(get(store, f"/api/v1/jobs?{query}")) == expected


def test_the_fleet(store: ClickHouseStore) -> None:
    fleet = get(store, "/api/v1/burn")
    history = fleet.pop("history")
    spent = fleet.pop("spend_today_usd")
    means = {name: Decimal(fleet.pop(name)) for name in queries.MEANS}
    assert fleet == {
        "as_of_ms": AS_OF_MS,
        "usd_per_hour_now": "12.500000001",
        "expected_usd_per_hour": "5.000000000",
        "idle_gpu_ratio": 0.75,
        "jobs_live": 1,
        "gpus_held": 2.0,
        "alerts_firing": 2,
    }
    total = sum((Decimal(job["cost_usd"]) for job in get(store, "/api/v1/jobs")["jobs"]), Decimal(0))
    assert Decimal(spent) == total
    # All of it is of the last 15 min, and the last 5 min are those of b's two GPUs at $2.50: five rows of 0.083333333.
    assert means == {
        "usd_per_hour": Decimal("4.99999998"),
        "usd_per_hour_15m": total * 4,
        "usd_per_hour_1h": total,
        "usd_per_hour_6h": (total / 6).quantize(Decimal("1e-9"), ROUND_DOWN),
    }
    by_minute = dict(history)
    last = AS_OF_MS
    assert by_minute[last] == 12.500000001, "the chart ends with the rate of now"
    assert by_minute[last - MINUTE_MS] == 6.0, "a rate stands until the next; that of z has lapsed"
    assert by_minute[last - 2 * MINUTE_MS] == 106.0, "of a row the newest version counts; z is 10 minutes old"
    assert by_minute[last - 3 * MINUTE_MS] == 105.0
    assert by_minute[last - 4 * MINUTE_MS] == 100.0
    assert max(by_minute) == last


def test_alerts_with_their_deliveries(store: ClickHouseStore) -> None:
    found = get(store, "/api/v1/alerts")["alerts"]
    assert [(each["alert_id"], each["status"]) for each in found] == [
        ("al_3", "resolved"),
        ("al_1", "firing"),
        ("al_2", "firing"),
    ]
    assert found[1] == found[1] | {
        "subject": {"kind": "job", "name": "b"},
        "started_ms": T0_MS + 400_000,
        "resolved_ms": None,
        "ratio": 6.5,
        "usd_per_hour": "32.500000000",
        "cost_usd": "8.125000000",
        "window_ms": 900_000,
        "silenced": False,
    }
    assert [(each["outcome"], each["http_status"]) for each in found[1]["deliveries"]] == [
        ("retrying", 503),
        ("delivered", 200),
    ]
    assert found[1]["deliveries"][0]["receiver"] == SECRET_RECEIVER
    assert found[2]["ratio"] is None, "unpriced judges no ratio"
    assert found[0]["resolved_ms"] == T0_MS + 450_000
    assert [each["alert_id"] for each in get(store, "/api/v1/alerts?status=firing&limit=1")["alerts"]] == [
        "al_1"
    ]


def test_one_job_whole(store: ClickHouseStore) -> None:
    found = get(store, "/api/v1/jobs/b")
    assert found["job"]["job_id"] == "b"
    assert found["costs"] == {"gpu": found["job"]["cost_usd"]}
    assert [(each["attempt"], each["state"], each["reason"]) for each in found["attempts"]] == [
        (1, "failed", "out_of_memory"),
        (2, "running", ""),
    ]
    assert [Decimal(each["lost_cost_usd"]) > 0 for each in found["attempts"]] == [True, False]
    assert found["phases"] == [
        {"attempt": 1, "phase": "starting", "start_ms": T0_MS + 200_000, "end_ms": T0_MS + 215_000},
        {"attempt": 1, "phase": "running", "start_ms": T0_MS + 215_000, "end_ms": T0_MS + 260_000},
        {"attempt": 2, "phase": "running", "start_ms": T0_MS + 300_000, "end_ms": AS_OF_MS},
    ]
    assert [minute for minute, *_ in found["usage"]] == [T0_MS + 180_000, T0_MS + 240_000]
    assert all(ratio == 0.25 for *_, ratio in found["usage"])
    assert found["burn"][-1] == [AS_OF_MS, 12.500000001, 7.0, 5.0]
    assert [each["alert_id"] for each in found["alerts"]] == ["al_3", "al_1"]
    assert found["run"] is None


def test_waiting_is_a_phase_too(store: ClickHouseStore) -> None:
    phases = get(store, "/api/v1/jobs/a")["phases"]
    assert phases[0] == {"attempt": 1, "phase": "queued", "start_ms": T0_MS, "end_ms": T0_MS + 30_000}


def test_explanation_adds_up_to_the_cost(store: ClickHouseStore) -> None:
    told = get(store, "/api/v1/jobs/a/explain")
    assert (told["total_usd"], told["booked_usd"]) == (COST_A, COST_A)
    (interval,) = told["intervals"]
    assert interval == interval | {
        "from_ms": T0_MS + 30_000,
        "to_ms": T0_MS + 180_000,
        "node": "n1",
        "phase": "running",
        "quantity": 1_200_000_000,
        "price_usd": "2.500000000",
        "per": "gpu_hour",
        "sku": "h100",
        "cost_usd": COST_A,
        "lost_cost_usd": "0.000000000",
        "rule": "GPUs held while running; price matches gpu_type=H100",
    }
    assert len(get(store, "/api/v1/jobs/a/explain?by=minute")["intervals"]) == 3


def test_an_odd_id_finds_its_job(store: ClickHouseStore) -> None:
    path = f"/api/v1/jobs/{quote(ODD_ID, safe='')}"

    async def work(client: Client) -> tuple[Any, Any]:
        whole = URL(client.server.url + path, encoded=True)
        async with client.session.get(whole) as answer:
            found = await answer.json()
        async with client.session.get(URL(f"{whole}/explain", encoded=True)) as answer:
            return found, await answer.json()

    found, told = served(store, work)
    assert found["job"]["job_id"] == ODD_ID
    assert told["intervals"][0]["rule"].endswith("unpriced: no price matches")


def test_without_burn_rates_the_newest_event_counts(store: ClickHouseStore) -> None:
    store.delete(BURN_RATES, [Condition("version", ">=", 0)])
    try:
        answer = get(store, "/api/v1/burn")
        assert answer["as_of_ms"] == AS_OF_MS
        assert (answer["usd_per_hour_now"], answer["jobs_live"], answer["history"]) == ("0.000000000", 0, [])
    finally:
        only_ours(store)


def test_a_job_without_hours_costs_what_its_minutes_do(store: ClickHouseStore) -> None:
    before = get(store, "/api/v1/jobs?order=cost")
    store.delete(JOB_HOURS, [Condition("job_id", "=", "a")])
    kept = store.query("SELECT DISTINCT job_id FROM job_hours FINAL ORDER BY job_id")["job_id"].to_pylist()
    assert "a" not in kept
    assert "b" in kept, "whose hours are read"
    assert get(store, "/api/v1/jobs?order=cost") == before
