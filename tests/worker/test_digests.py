"""Weekly digests: per owner and per team, once a week, when all shards have stored its last hour."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS, JOB_HOURS
from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from tests.notify.scripted_sender import run
from tests.oracle.receipts import Hour, week_of
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at, opened
from tests.worker.receipts import ON, ids, look, stored, told, usd

DAY_MS = 24 * HOUR_MS
MONDAY = T0 - 10 * HOUR_MS - 3 * DAY_MS  # 29 December 2025, the first day of 2026-W01
END = MONDAY + 7 * DAY_MS
TEAM = ("receipt", "vision", {"on": True, "owner": "ada", "team": "vision"})
STORY = [
    ("run-1", MONDAY - 1 * HOUR_MS, Hour(40 * 10**9, 9)),
    ("run-1", MONDAY, Hour(70 * 10**9, 5 * 10**9 + 1, sampled_ms=900, productive_ms=300)),
    ("run-2", MONDAY - 7 * DAY_MS, Hour(100 * 10**9)),
    ("run-3", END - HOUR_MS, Hour(10**9 + 7, sampled_ms=100, productive_ms=99)),
    ("run-4", END - DAY_MS, Hour(2 * 10**9)),
    ("run-5", END - DAY_MS, Hour(3 * 10**9)),
    ("run-6", END, Hour(500 * 10**9)),  # of the next week
    ("run-7", MONDAY - 7 * DAY_MS - HOUR_MS, Hour(600 * 10**9)),  # of the week before the last
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("digests"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def spent(ledger: Ledger, job_id: str, at_ms: int, hour: Hour, **fields: Any) -> None:
    ledger.job(job_id, **({"owner": "ada", "team": "vision"} | fields))
    row = {
        "job_id": job_id,
        "hour": at(at_ms),
        "wall_clock_ms": hour.wall_ms,
        "gpu_milli_ms": 1_000 * hour.wall_ms,
    }
    paid = {"gpu_cost_usd": usd(hour.cost), "lost_cost_usd": usd(hour.lost)}
    samples = {"sampled_gpu_ms": hour.sampled_ms, "productive_gpu_ms": hour.productive_ms}
    ledger._put(JOB_HOURS, {**row, **paid, **samples})


def lived(store: ClickHouseStore, *controls: tuple[str, str, dict[str, Any]]) -> Life:
    return Life(store, ManualClock(T0), *(controls or (ON,)))


def nano(text: str) -> int:
    return int(Decimal(text).scaleb(9))


def test_the_figures_are_those_of_the_oracle(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store)
        for job_id, at_ms, hour in STORY:
            spent(ledger, job_id, at_ms, hour)
        spent(ledger, "others", MONDAY, Hour(10**12), owner="bob", team="nlp")
        spent(ledger, "trainfare-canary.1", MONDAY, Hour(10**12))
        await look(life, ledger, END - 1)
        assert told(life) == []
        await look(life, ledger, END)
        (data,) = told(life)
        wanted = week_of(STORY, MONDAY, END)
        assert (nano(data["cost_usd"]), nano(data["previous_usd"])) == (wanted["cost"], wanted["previous"])
        assert nano(data["change_usd"]) == wanted["cost"] - wanted["previous"]
        assert (nano(data["lost_usd"]), nano(data["unproductive_usd"])) == (
            wanted["lost"],
            wanted["unproductive"],
        )
        assert [(each["job_id"], nano(each["change_usd"])) for each in data["drivers"]] == wanted["drivers"]
        assert [(each["job_id"], nano(each["cost_usd"])) for each in data["largest"]] == wanted["largest"]
        for each in data["drivers"]:
            effects = nano(each["price_effect_usd"]) + nano(each["quantity_effect_usd"])
            assert effects == nano(each["change_usd"])
        assert (data["jobs"], data["week"]) == (wanted["jobs"], "2026-W01")
        assert (data["subject"], data["owner"]) == ({"kind": "owner", "name": "ada"}, "ada")
        assert data["summary"] == (
            "owner ada spent $76.00 in 2026-W01, $64.00 (46 %) less than the week before."
            " run-2 (gpu) changed most: -$100.00; $5.00 lost; $45.68 of GPUs that did not work."
        )
        (row,) = stored(store)
        assert (row["type"], row["begins"], row["ended"]) == ("digest.weekly", at(MONDAY), at(END))

    run(scenario())


def test_a_team_has_one_at_the_owner_of_its_record(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store, TEAM)
        spent(ledger, "a", MONDAY, Hour(10**9), owner="bob")
        spent(ledger, "b", MONDAY, Hour(2 * 10**9), owner="")
        await look(life, ledger, END)
        (data,) = told(life)
        assert (data["subject"], data["owner"]) == ({"kind": "team", "name": "vision"}, "ada")
        assert (data["cost_usd"], data["unproductive_usd"], data["change_ratio"]) == ("3", None, None)
        assert data["summary"].startswith(
            "team vision spent $3.00 in 2026-W01, nothing the week before. b (gpu)"
        )

    run(scenario())


def test_it_lists_the_alerts_that_were_too_small_to_be_sent(store: ClickHouseStore) -> None:
    def alert(number: int, **fields: Any) -> dict[str, Any]:
        row = {
            "alert_id": f"al_{number}",
            "rule": "idle_gpus",
            "severity": "digest",
            "subject_kind": "job",
            "subject_name": f"run-{number}",
            "owner": "ada",
            "started": at(MONDAY + number * HOUR_MS),
        }
        return row | fields

    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store)
        spent(ledger, "a", MONDAY, Hour(10**9))
        ledger._put(
            ALERTS,
            *(alert(number) for number in (4, 3, 2, 1)),
            alert(5, rule="silent_job"),
            alert(6, severity="ticket"),
            alert(7, owner="bob"),
            alert(8, started=at(MONDAY - 1)),
            alert(9, started=at(END)),
        )
        await look(life, ledger, END)
        (data,) = told(life)
        assert data["small_alerts"] == [
            {"rule": "idle_gpus", "alerts": 4, "subjects": ["run-1", "run-2", "run-3"]},
            {"rule": "silent_job", "alerts": 1, "subjects": ["run-5"]},
        ]
        assert data["summary"].endswith("5 alerts too small to be sent, most of them: Idle GPUs.")

    run(scenario())


def test_it_is_sent_once_also_by_the_next_owner(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store, ON, TEAM)
        spent(ledger, "a", MONDAY, Hour(10**9))
        life.clock.advance(END - T0)
        ledger.books(END)
        await life.rules.step()
        await life.rules.issue_receipts()  # stored and handed on, and the process is gone
        following = Life(store, life.clock, ON, TEAM, generation=2)
        await look(following, ledger, END + MINUTE_MS)
        await look(following, ledger, END + 2 * MINUTE_MS)
        assert len(ids(following)) == len(set(ids(following))) == len(stored(store)) == 2

    run(scenario())


@pytest.mark.parametrize("on", [False, True], ids=["off", "nothing was spent"])
def test_without_a_record_or_costs_there_is_none(store: ClickHouseStore, *, on: bool) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store, ("receipt", "ada", {"on": on}))
        if not on:
            spent(ledger, "a", MONDAY, Hour(10**9))
        await look(life, ledger, END)
        await look(life, ledger, END + MINUTE_MS)
        assert (told(life), stored(store)) == ([], [])

    run(scenario())


def test_old_weeks_and_those_before_the_record_are_not_told(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store)
        spent(ledger, "a", MONDAY, Hour(10**9))
        await look(life, ledger, END + DAY_MS + MINUTE_MS)
        assert told(life) == []
        late = lived(store, ("owner", "x", {}))
        late.say(ON, time_ms=END + 1)
        await look(late, ledger, END + HOUR_MS)
        assert told(late) == []

    run(scenario())


def test_a_late_shard_is_waited_for(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), lived(store)
        ledger.job("open", shard=1, owner="bob")
        spent(ledger, "a", MONDAY, Hour(10**9))
        await look(life, ledger, END + HOUR_MS, END - MINUTE_MS)
        assert told(life) == []
        await look(life, ledger, END + HOUR_MS + MINUTE_MS, END + HOUR_MS + MINUTE_MS)
        assert len(told(life)) == 1

    run(scenario())
