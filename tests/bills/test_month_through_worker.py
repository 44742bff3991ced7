"""Bills are allocated, and months closed, through a process that has the store open: the same as without one, with each guard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.costs.closing import ClosingRules
from streams.costs.closing_key import ClosingKey
from streams.costs.month_store import OpenMonthStore
from streams.errors import TrainfareError
from streams.web.bills import BillEndpoint
from streams.web.month_wire import MonthCall, MonthRequest
from streams.web.month_work import MonthWork, _answer
from streams.web.store_reader import StoreReader
from tests.bills.bill import loaded, written
from tests.bills.test_load_through_worker import NoLog
from tests.bills.test_variance import events, usage
from tests.cli.command import Done, trainfare
from tests.sinks.rows import rows
from tests.web.serving import WALL_MS, Client, served

TOKEN = "a-token-of-sixteen-and-more"
KEY = ClosingKey(b"a key of thirty-two characters, at least")


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[tuple[Path, ClickHouseStore]]:
    """A directory with two jobs of May, and its store."""
    data = tmp_path / "meter"
    assert trainfare("replay", events(tmp_path / "events.jsonl", "3", 2), "--data", data).code == 0
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        yield data, store
    finally:
        store.close()


def asked(store: ClickHouseStore, *commands: tuple[object, ...], **settings: Any) -> list[Done]:
    """What came of commands through a process that has the store open."""

    async def work(client: Client) -> list[Done]:
        env = {"TRAINFARE_WEB_TOKEN": TOKEN}
        return [
            await asyncio.to_thread(trainfare, *words, "--url", client.server.url, env=env)
            for words in commands
        ]

    found: list[Done] = served(store, work, controls=NoLog(), token=TOKEN, **settings)
    return found


def test_a_month_is_closed_through_a_worker_as_without_one(
    metered: tuple[Path, ClickHouseStore], tmp_path: Path
) -> None:
    data, store = metered
    bill = written(tmp_path / "may.csv", usage("72"))
    statement = ("statement", "--team", "vision", "--month", "2026-05", "--format", "csv")
    done = asked(
        store,
        ("bills", "load", bill),
        ("bills", "allocate"),
        ("bills", "allocate", "--month", "2026-05", "--format", "csv"),
        ("bills", "allocate", "--month", "2026-13"),
        statement,
        ("close", "2026-05", "--dry-run"),
        ("close", "2026-05"),
        ("close", "2026-05"),
        ("close", "2026-06"),
        ("close", "2026-05", "--verify"),
        statement,
    )

    assert [each.code for each in done] == [0, 0, 0, 2, 0, 0, 0, 2, 2, 0, 0], [each.err for each in done]
    assert "nothing has changed since bills were allocated last" in done[1].out
    assert done[2].out.splitlines()[1].startswith("2026-05,1,2,72.0")
    assert "expected a month such as 2026-10" in done[3].one_line()
    assert "nothing was closed" in done[5].out
    assert "2026-05 is closed since 2026-06-01" in done[7].one_line()
    assert "2026-06 has not ended" in done[8].one_line()
    assert done[9].out == "2026-05 is as it was closed\n"
    assert done[10].out == done[4].out
    store.close()
    alone = [trainfare(*words, "--data", data) for words in (("close", "2026-05", "--verify"), statement)]
    assert [each.out for each in alone] == [done[9].out, done[10].out]
    assert [each.code for each in alone] == [0, 0]
    said = trainfare("chargeback", "--data", data, "--month", "2026-05").err
    assert "2026-05 is closed since 2026-06-01T10:00:00Z: this is what it would be charged now" in said
    (job,) = json.loads(
        trainfare(
            "sql", "SELECT sum(billed_usd) AS usd FROM job_costs", "--data", data, "--format", "json"
        ).out
    )
    assert float(job["usd"]) == 72


def test_a_first_closing_says_which_months_it_shuts_out(metered: tuple[Path, ClickHouseStore]) -> None:
    _, store = metered
    (hour, *_) = store.select("job_hours").to_pylist()
    march, april = (hour["hour"] - timedelta(days=days) for days in (61, 30))
    store.insert("job_hours", rows("job_hours", {**hour, "hour": april}), "april")
    (tried, refused) = asked(store, ("close", "2026-05", "--dry-run"), ("close", "2026-05"))
    assert (tried.code, refused.code) == (0, 2)
    assert "closing it now would be refused: 2026-05: " in tried.err
    assert "metered and on no bill yet" in tried.err
    for each in (tried, refused):
        assert "unless 2026-04 is closed before it, it can never be" in each.err
    store.insert("job_hours", rows("job_hours", {**hour, "hour": march}), "march")
    (closed, later) = asked(store, ("close", "2026-05", "--unreconciled"), ("close", "2026-06", "--dry-run"))
    assert (closed.code, later.code) == (0, 0)
    assert "unless 2026-03 is closed before it, 2 months with jobs can never be" in closed.err
    assert "can never be" not in later.err


def test_a_worker_allocates_again_what_has_changed(
    metered: tuple[Path, ClickHouseStore], tmp_path: Path
) -> None:
    _, store = metered
    loaded(store, written(tmp_path / "may.csv", usage("72")), now_ms=WALL_MS - 1)
    wall = [WALL_MS]

    async def work() -> list[list[str]]:
        reader = StoreReader(lambda: store, "bills", 1)
        endpoint = BillEndpoint(reader, lambda: wall[0], lambda: 0)
        found = [await endpoint.refresh(), await endpoint.refresh()]
        (hour, *_) = store.select("job_hours").to_pylist()
        late = {**hour, "gpu_cost_usd": hour["gpu_cost_usd"] + 1, "version": hour["version"] + 1}
        store.insert("job_hours", rows("job_hours", late), "late")
        wall[0] += 1
        found.append(await endpoint.refresh())
        await endpoint.close()
        await reader.close()
        return found

    assert asyncio.run(work()) == [["2026-05"], [], ["2026-05"]]
    closed = StoreReader(lambda: None, "bills", 1)
    assert (
        asyncio.run(BillEndpoint(closed, lambda: 0, lambda: 0).refresh()) == []
    )  # the store is not open yet


def test_a_configured_key_signs_and_another_does_not_verify(metered: tuple[Path, ClickHouseStore]) -> None:
    data, store = metered
    key = "0123456789abcdef" * 2
    verify = ("close", "2026-05", "--verify")
    (closed, found) = asked(store, ("close", "2026-05", "--unreconciled"), verify, closing_key=key)
    assert (closed.code, found.code) == (0, 0)
    (other,) = asked(store, verify, closing_key="f" * 32)
    assert other.code == 1
    assert "the manifest is not what was signed, or it was signed with another key" in other.out
    (unknown,) = asked(store, verify)
    assert "the signature cannot be checked: the key" in unknown.out
    assert not (data / "closing_key").exists()


def test_a_store_that_is_only_shown_closes_nothing(metered: tuple[Path, ClickHouseStore]) -> None:
    _, store = metered

    async def work(client: Client) -> Done:
        env = {"TRAINFARE_WEB_TOKEN": TOKEN}
        return await asyncio.to_thread(trainfare, "close", "2026-05", "--url", client.server.url, env=env)

    done: Done = served(store, work, token=TOKEN)
    assert done.code == 1
    assert "close and verify no months; stop it and run the command with --data DIR" in done.one_line()


def test_whoever_may_not_write_closes_nothing(metered: tuple[Path, ClickHouseStore]) -> None:
    _, store = metered

    async def work(client: Client) -> int:
        headers = {"Authorization": "Bearer a-token-of-sixteen-for-readers"}
        url = f"{client.server.url}/api/v1/closings"
        async with client.session.post(url, json={"month": "2026-05"}, headers=headers) as answer:
            return answer.status

    allowed = {
        "read_token": "a-token-of-sixteen-for-readers",
        "write_token": "a-token-of-sixteen-for-writers",
    }
    assert served(store, work, controls=NoLog(), **allowed) == 403


def test_the_process_apart_may_do_what_it_was_asked_for_and_no_more(
    metered: tuple[Path, ClickHouseStore],
) -> None:
    _, store = metered
    opened = OpenMonthStore(store)
    rows = store.select("jobs")
    for call, key in (
        (MonthCall("insert", table="jobs"), None),
        (MonthCall("insert", table="closed_months"), None),
        (MonthCall("insert", table="bill_parts"), KEY),
        (MonthCall("forget_closing"), None),
        (MonthCall("sign", manifest="{}"), None),
    ):
        with pytest.raises(TrainfareError, match="the process that works on months asked for"):
            _answer(opened, call, rows, key)
    with pytest.raises(Exception, match=r"(?i)readonly|read-only|cannot execute"):
        _answer(opened, MonthCall("ask", "DROP TABLE jobs"), None, None)


def test_a_process_that_is_killed_or_takes_too_long_closes_nothing(
    metered: tuple[Path, ClickHouseStore],
) -> None:
    _, store = metered
    killed = MonthWork.closing("2026-05", ClosingRules(), WALL_MS, is_forced=True)
    killed.kill()
    with pytest.raises(TrainfareError, match="ended early"):
        killed.closed(store, KEY)
    slow = MonthWork(MonthRequest(["2026-05"], WALL_MS, 0, 2**31))
    with pytest.raises(TrainfareError, match=r"ended early|0 s of processor time"):
        slow.allocated(store)
    assert not store.select("closed_months").num_rows


def test_a_wrong_body_is_refused(metered: tuple[Path, ClickHouseStore]) -> None:
    _, store = metered

    async def work(client: Client) -> list[tuple[int, str]]:
        found = []
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for path, body in (
            ("closings", {"month": "2026-05", "cost": "free"}),
            ("closings", {"month": "2026-05", "and": 1}),
            ("closings", {}),
            ("closings", {"month": "2026-05\u202e"}),
            ("bills/allocations", {"months": ["2026-05"] * 121}),
        ):
            url = f"{client.server.url}/api/v1/{path}"
            async with client.session.post(url, json=body, headers=headers) as answer:
                found.append((answer.status, msgspec.json.decode(await answer.read())["error"]["message"]))
        return found

    found = served(store, work, controls=NoLog(), token=TOKEN)
    assert [status for status, _ in found] == [400] * 5
    assert "\u202e" not in found[3][1]
