"""A job beside similar ones, elsewhere, and its receipt: figures are those of the commands; hostile ids; limits of time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.estimate import alternatives as all_places
from streams.estimate.alternatives import alternatives
from streams.estimate.asking import ran_job
from streams.estimate.elsewhere import compared
from streams.web import job_estimates
from tests.cli.command import trainfare
from tests.notify.notices import CHEAPER, a_receipt, keep
from tests.web import estimate_log
from tests.web.serving import TOKEN, Client, served

JOBS = ("o6", "s", "waits", estimate_log.HOSTILE[2])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("estimates")
    done = trainfare("replay", estimate_log.write(root / "log.jsonl"), "--data", root / "meter")
    assert done.code == 0, done.err
    with_receipts(root / "meter")
    return root / "meter"


def with_receipts(meter: Path) -> None:
    store = ClickHouseStore(Embedded(data_dir=meter))
    keep(
        store,
        *(a_receipt(CHEAPER, job_id=job_id, owner="bo\u202eb") for job_id in ("o6", *estimate_log.HOSTILE)),
    )
    store.close()


@pytest.fixture(scope="module")
def said(data: Path) -> dict[str, Any]:
    """What the commands say of each job, before the server has the store open."""

    def asked(*words: str) -> Any:
        done = trainfare(*words, "--data", data, "--format", "json")
        return json.loads(done.out) if done.code == 0 else done.one_line()

    found: dict[str, Any] = {}
    for job_id in JOBS:
        text = trainfare("receipts", "show", "--data", data, "--", job_id)
        found[job_id] = {
            "similar": asked("job", job_id),
            "elsewhere": asked("estimate", "--of", job_id, "--everywhere"),
            "receipt": asked("receipts", "show", job_id),
            "text": text.out,
        }
    return found


@pytest.fixture(scope="module")
def estimate_store(data: Path, said: dict[str, Any]) -> Iterator[ClickHouseStore]:
    assert said
    opened = ClickHouseStore(Embedded(data_dir=data))
    try:
        yield opened
    finally:
        opened.close()


def paths(job_id: str, part: str) -> list[str]:
    """Both ways to name a job."""
    name = quote(job_id, safe="")
    by_path = [] if job_id == ".." else [f"/api/v1/jobs/{name}/{part}"]
    return [*by_path, f"/api/v1/job/{part}?id={name}"]


def test_similar_jobs_are_those_of_the_command(estimate_store: ClickHouseStore, said: dict[str, Any]) -> None:
    async def work(client: Client) -> Any:
        for job_id in JOBS:
            for path in paths(job_id, "similar"):
                assert await client.get(path) == said[job_id]["similar"]["similar"], path
        return await client.get("/api/v1/jobs/live/similar")

    live = served(estimate_store, work)
    o6 = said["o6"]["similar"]["similar"]
    assert (o6["jobs"], o6["kind"]) == (
        5,
        {"team": "v", "gpu_type": "H", "purchase": "on_demand", "gpus": "8"},
    )
    cost = o6["figures"]["cost_usd"]
    # 8 GPUs at $3.60 for 1 to 5 hours; place 3.8 of 0 to 4.
    hour = Decimal("28.8")
    assert [Decimal(cost[name]) for name in ("job", "least", "p25", "median", "p75", "p95", "most")] == [
        hour * each for each in (6, 1, 2, 3, 4, Decimal("4.8"), 5)
    ]
    assert cost["ratio"] == 2
    assert o6["figures"]["wall_clock_ms"]["p95"] == 3_600_000 * 48 // 10
    assert said["s"]["similar"]["similar"]["jobs"] == 0
    assert (live["is_over"], live["jobs"]) == (False, 6)


def test_elsewhere_is_what_the_command_says(estimate_store: ClickHouseStore, said: dict[str, Any]) -> None:
    async def work(client: Client) -> dict[str, Any]:
        found = {}
        for job_id in JOBS:
            for path in paths(job_id, "elsewhere"):
                found[job_id] = await client.get(path)
                reason = found[job_id].pop("reason")
                wanted = said[job_id]["elsewhere"]
                if isinstance(wanted, str):
                    assert wanted == f"trainfare: {reason}", path
                    assert found[job_id]["places"] == []
                else:
                    assert (reason, found[job_id]) == ("", wanted), path
        return found

    found = served(estimate_store, work)
    assert "has paid for nothing yet" in said["waits"]["elsewhere"]
    costs = [Decimal(each["cost_usd"]) for each in found["s"]["places"]]
    assert costs == sorted(costs)
    assert found["s"]["later_prices"] == 1, "a price of the next day"


def test_a_receipt_is_what_the_command_prints(estimate_store: ClickHouseStore, said: dict[str, Any]) -> None:
    async def work(client: Client) -> None:
        for job_id in ("o6", estimate_log.HOSTILE[2]):
            for path in paths(job_id, "receipt"):
                assert await client.get(path) == said[job_id]["receipt"]
                more = "&" if "?" in path else "?"
                text = (await client.get(f"{path}{more}format=text")).decode()
                assert text == said[job_id]["text"]
                assert "\u202e" not in text
            detail = await client.get(paths(job_id, "")[-1].replace("job/?", "job?"))
            assert detail["receipt"]["receipt_id"] == said[job_id]["receipt"]["data"]["receipt_id"]
        # To whom none was sent it is made of what the store has.
        assert (await client.get("/api/v1/jobs/s/receipt")) == said["s"]["receipt"]
        text = (await client.get("/api/v1/jobs/s/receipt?format=text")).decode()
        assert text == said["s"]["text"]
        assert "not sent: made from the store now" in text
        assert (await client.get("/api/v1/jobs/s"))["receipt"] is None
        none = await client.get("/api/v1/jobs/waits/receipt", 404)
        assert "has not ended" in none["error"]["message"]
        assert said["waits"]["receipt"] == (
            "trainfare: job 'waits' has not ended; `trainfare job waits` has what it has cost so far"
        )

    served(estimate_store, work)


def test_hostile_ids_are_names_and_nothing_else(estimate_store: ClickHouseStore) -> None:
    """They all ran alike, so that the answers differ in nothing but the name."""

    async def work(client: Client) -> None:
        answers = []
        for job_id in estimate_log.HOSTILE:
            for part in ("similar", "elsewhere"):
                for path in paths(job_id, part):
                    found = await client.get(path)
                    assert found.pop("job_id") == job_id
                    answers.append((part, found))
            for path in paths(job_id, "receipt"):
                assert (await client.get(path))["data"]["job_id"] == job_id
        for part in ("similar", "elsewhere"):
            first, *others = [found for each, found in answers if each == part]
            assert all(each == first for each in others)

    served(estimate_store, work)


def test_each_place_is_what_its_fields_alone_give(estimate_store: ClickHouseStore) -> None:
    def records(sql: str, **bound: object) -> list[dict[str, object]]:
        answer = estimate_store.ask(sql, bound)
        return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]

    for job_id, places in (("s", 4), ("o6", 4), (estimate_log.HOSTILE[0], 4)):
        found = alternatives(records, job_id)
        assert len(found.places) == places
        for place in found.places:
            alone = compared(ran_job(records, job_id, place.there, found.book), place.there, found.book)
            assert alone == place.sides, place.there.fields


@pytest.mark.parametrize(
    ("limits", "compared_places"),
    [
        ({"PLACES_MAX": 2}, 2),
        # Of the four only the price of B changes while the job runs, and it comes last.
        ({"_INSTANTS_MAX": 0}, 3),
        ({"_ROWS_MAX": 0, "_PLACES_LEAST": 1}, 1),
    ],
)
def test_what_is_too_much_is_left_out_and_counted(
    estimate_store: ClickHouseStore,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    compared_places: int,
) -> None:
    for name, most in limits.items():
        monkeypatch.setattr(all_places, name, most)
    found = served(estimate_store, lambda client: client.get("/api/v1/jobs/o6/elsewhere"))
    assert (len(found["places"]), found["left_out"]) == (compared_places, 4 - compared_places)


def test_what_is_wrong_is_said(estimate_store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for part in ("similar", "elsewhere", "receipt"):
            assert (
                "not in this store"
                in (await client.get(f"/api/v1/jobs/nobody/{part}", 404))["error"]["message"]
            )
            assert "id: name a job" in (await client.get(f"/api/v1/job/{part}", 400))["error"]["message"]
            assert "unknown" in (await client.get(f"/api/v1/jobs/s/{part}?x=1", 400))["error"]["message"]
        assert "format" in (await client.get("/api/v1/jobs/s/receipt?format=pdf", 400))["error"]["message"]

    served(estimate_store, work)


def test_all_statements_of_an_answer_together_have_a_limit(
    estimate_store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_estimates, "_WITHIN_S", 0.0)

    async def work(client: Client) -> Any:
        found = await client.get("/api/v1/jobs/s/elsewhere", 504)
        await asyncio.sleep(0)
        return found

    assert served(estimate_store, work)["error"]["code"] == "query_timed_out"


def test_they_need_the_scope_of_readers(estimate_store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for part in ("similar", "elsewhere", "receipt"):
            await client.get(f"/api/v1/jobs/o6/{part}", 401)
            await client.get(f"/api/v1/jobs/o6/{part}", headers={"Authorization": f"Bearer {TOKEN}"})

    served(estimate_store, work, read_token=TOKEN)
