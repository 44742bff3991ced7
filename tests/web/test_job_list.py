"""The list of jobs: any job of many is found, every character of a search stands for itself, pages hold still."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from loadtest.board_store import AS_OF_MS, SWEPT, TRIALS, fill, name_of, node_of
from schemas.tables import ALERTS, BURN_RATES, JOBS
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.rows import Condition
from tests.web import live
from tests.web.serving import Client, served

LIVE, ENDED = 2_000, 40
HOSTILE = (
    "100%_done", "a_b", "axb", "it's", "back\\slash", "\\", 'say "x"', "{braces}", "'; DROP TABLE jobs; --", "\u202edlrow",
    "日本語", "ÜBER", "..", "a/b", "$$", "[0-9]+", ".*",
)  # fmt: skip


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    """Some thousand jobs, and some whose names mean something to SQL, patterns or terminals."""
    store = ClickHouseStore(Embedded(data_dir=tmp_path_factory.mktemp("board") / "meter"))
    try:
        fill(store, LIVE, ENDED, minutes=2, hours=2)
        one = store.select(JOBS, limit=1).to_pylist()[0]
        live.put(
            store,
            JOBS,
            [one | {"job_id": each, "state": "queued", "experiment": ""} for each in HOSTILE],
            "hostile",
        )
        # The last rate that is known of these is of a moment at which they ran.
        live.put(store, BURN_RATES, [live.burn("past-0002000", AS_OF_MS, "77")], "past")
        alert = live.alert("al_9", subject_name=name_of(1_999), rule="idle_gpus")
        live.put(store, ALERTS, [alert], "alert")
        yield store
    finally:
        store.close()


def asked(board: ClickHouseStore, *queries: dict[str, str], status: int = 200) -> list[Any]:
    async def work(client: Client) -> list[Any]:
        return [await client.get("/api/v1/jobs", status, params=each) for each in queries]

    return served(board, work)


def ids(answer: dict[str, Any]) -> list[str]:
    return [job["job_id"] for job in answer["jobs"]]


@pytest.mark.parametrize("number", [0, 1, 777, 1_999])
def test_any_job_is_found_by_its_name_and_by_its_node(board: ClickHouseStore, number: int) -> None:
    by_name, by_node = asked(board, {"q": name_of(number).upper()}, {"q": node_of(number), "state": "live"})
    assert ids(by_name) == ids(by_node) == [name_of(number)]
    assert by_node["jobs"][0]["nodes"] == [node_of(number)]
    assert (by_name["matched"], by_name["total"]) == (1, LIVE + ENDED + len(HOSTILE))
    assert (by_node["matched"], by_node["total"]) == (1, LIVE + len(HOSTILE))


def test_each_word_is_looked_for_in_every_name(board: ClickHouseStore) -> None:
    owner, project, rule, none = asked(
        board,
        {"q": "llama USER042", "limit": "1000"},
        {"q": "project119", "state": "live"},
        {"q": "idle_gpus"},
        {"q": "llama user042 nobody"},
    )
    numbers = range(LIVE)
    expected = [n for n in numbers if n % 500 == 42 and name_of(n).startswith("llama")]
    assert sorted(ids(owner)) == sorted(name_of(n) for n in expected)
    assert project["matched"] == len([n for n in numbers if n % 120 == 119])
    assert ids(rule) == [name_of(1_999)]
    assert (none["jobs"], none["matched"], none["rows"]) == ([], 0, 0)


@pytest.mark.parametrize("text", HOSTILE)
def test_every_character_stands_for_itself(board: ClickHouseStore, text: str) -> None:
    (found,) = asked(board, {"q": text, "limit": "1000", "order": "job"})
    words = text.lower().split()
    expected = [each for each in HOSTILE if all(word in each.lower() for word in words)]
    assert sorted(set(ids(found)) & set(HOSTILE)) == sorted(expected)
    if text not in ("..", ".*", "[0-9]+", "a_b"):
        assert found["matched"] == len(expected)


def test_a_page_follows_the_last_row_of_the_one_before(board: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        turns = (("burn", "desc"), ("job", "desc"), ("owner", "asc"), ("ratio", "asc"), ("use", "desc"))
        for order, direction in turns:
            asked = {"order": order, "dir": direction, "limit": "1000"}
            pages = [await client.get("/api/v1/jobs", params=asked)]
            while pages[-1]["next"]:
                cursor = pages[-1]["next"]
                pages.append(await client.get("/api/v1/jobs", params={**asked, "cursor": cursor}))
            listed = [each for page in pages for each in ids(page)]
            assert len(listed) == len(set(listed)) == LIVE + ENDED + len(HOSTILE), order
            assert [page["position"] for page in pages] == [0, 1_000, 2_000], order
            back = await client.get("/api/v1/jobs", params={**asked, "cursor": pages[1]["previous"]})
            assert (ids(back), back["position"]) == (ids(pages[0]), 0), order
            assert (pages[0]["previous"], back["previous"], pages[-1]["next"]) == (None, None, None)

    served(board, work)


def test_what_begins_and_ends_meanwhile_shifts_no_page(board: ClickHouseStore) -> None:
    """A number of a page would show the last row of the first page again, as one more job stands before it."""
    first, whole = asked(board, {"order": "job", "limit": "5"}, {"order": "job", "limit": "11"})
    one = board.select(JOBS, limit=1).to_pylist()[0]
    live.put(board, JOBS, [one | {"job_id": "!first"}], "one more")
    try:
        (second,) = asked(board, {"order": "job", "limit": "5", "cursor": first["next"]})
        assert ids(second) == ids(whole)[5:10]
        assert second["position"] == 6
    finally:
        board.delete(JOBS, [Condition("job_id", "=", "!first")])


def test_the_rows_are_in_the_order_that_was_asked_for(board: ClickHouseStore) -> None:
    burn, use, owner, ended = asked(
        board,
        {"limit": "200", "state": "live"},
        {"order": "use", "dir": "asc", "state": "live", "limit": "500"},
        {"order": "owner", "limit": "200"},
        {"state": "ended", "limit": "1000"},
    )
    rates = [Decimal(job["usd_per_hour_now"]) for job in burn["jobs"]]
    assert rates == sorted(rates, reverse=True)
    used = [-1 if job["productive_ratio"] is None else job["productive_ratio"] for job in use["jobs"]]
    assert used == sorted(used)
    owners = [(job["owner"], job["team"]) for job in owner["jobs"]]
    assert owners == sorted(owners)
    assert {job["state"] for job in ended["jobs"]} == {"completed", "failed", "cancelled"}


def test_a_job_that_has_ended_burns_nothing(board: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        (listed,) = (await client.get("/api/v1/jobs", params={"q": "past-0002000"}))["jobs"]
        one = (await client.get("/api/v1/jobs/past-0002000"))["job"]
        for job in (listed, one):
            assert (job["usd_per_hour_now"], job["expected_usd_per_hour"], job["ratio"]) == (
                "0.000000000",
                "0.000000000",
                None,
            )
        fleet = await client.get("/api/v1/burn")
        every = [
            await client.get("/api/v1/jobs", params={"limit": "1000", "cursor": cursor})
            for cursor in ("", (await client.get("/api/v1/jobs", params={"limit": "1000"}))["next"])
        ]
        rates = [Decimal(job["usd_per_hour_now"]) for page in every for job in page["jobs"]]
        assert Decimal(fleet["usd_per_hour_now"]) == sum(rates)

    served(board, work)


def test_a_sweep_is_one_row_with_the_sums_of_its_trials(board: ClickHouseStore) -> None:
    (grouped,) = asked(board, {"group": "sweep", "state": "live", "q": "lr-0001"})
    keys = [row["sweep"]["key"] for row in grouped["jobs"] if row["job_id"] is None]
    assert grouped["matched"] == TRIALS
    assert grouped["rows"] == len(keys) + sum(row["job_id"] is not None for row in grouped["jobs"])
    (single,) = asked(board, {"sweep": keys[0], "state": "live", "limit": "1000"})
    (row,) = [row for row in grouped["jobs"] if row["sweep"]["key"] == keys[0]]
    assert row["sweep"]["jobs"] == single["matched"] == len(single["jobs"]) >= 5
    for total in (
        "cost_usd",
        "usd_per_hour_now",
        "expected_usd_per_hour",
        "lost_cost_usd",
    ):
        assert Decimal(row[total]) == sum(Decimal(job[total]) for job in single["jobs"]), total
    assert row["gpu_count"] == sum(job["gpu_count"] for job in single["jobs"])
    assert {job["experiment"] for job in single["jobs"]} == {row["sweep"]["name"]} == {"lr-0001"}


def test_pages_of_sweeps_are_whole_too(board: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for order in ("job", "cost"):
            asked = {"order": order, "group": "sweep", "limit": "900"}
            pages = [await client.get("/api/v1/jobs", params=asked)]
            while pages[-1]["next"]:
                pages.append(await client.get("/api/v1/jobs", params={**asked, "cursor": pages[-1]["next"]}))
            jobs = [row.get("sweep", {}).get("jobs", 1) for page in pages for row in page["jobs"]]
            assert sum(jobs) == LIVE + ENDED + len(HOSTILE)
            assert len(jobs) == pages[0]["rows"]

    served(board, work)
    assert SWEPT > 1, "some jobs are of no sweep"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"q": "x" * 1_025}, "longer than 1024 bytes"),
        ({"q": " ".join("abcdefghijklm")}, "got 13 words"),
        ({"q": "a\0b"}, "without NUL"),
        ({"owner": "\0"}, "without NUL"),
        ({"state": "dancing"}, "expected one of live, ended"),
        ({"order": "colour"}, "expected one of burn"),
        ({"dir": "up"}, "expected one of asc, desc"),
        ({"group": "owner"}, "expected one of sweep"),
        ({"firing": "yes"}, "expected one of 0, 1"),
        ({"limit": "0"}, "expected 1 to 1000"),
        ({"cursor": "!"}, "cursor: got what is not one of this list"),
        ({"cursor": "e30"}, "cursor: got what is not one of this list"),
        ({"page": "2"}, "parameter 'page' is unknown"),
    ],
)
def test_wrong_values_are_refused_in_words(board: ClickHouseStore, wrong: dict[str, str], said: str) -> None:
    (answer,) = asked(board, wrong, status=400)
    assert said in answer["error"]["message"]


def test_a_cursor_of_another_order_is_refused(board: ClickHouseStore) -> None:
    (first,) = asked(board, {"limit": "5"})
    for other in ({"order": "job"}, {"dir": "asc"}):
        (answer,) = asked(board, {**other, "cursor": first["next"]}, status=400)
        assert "begin again without it" in answer["error"]["message"]


LONG = "x" * 256
ODD = ("back\\slash", "..", "a/b", "日本語", "\u202edlrow", "{{7*7}}", "a b", "%2F", "?#&=", ".", LONG)


def test_a_job_of_any_id_opens(board: ClickHouseStore) -> None:
    one = board.select(JOBS, limit=1).to_pylist()[0]
    more = [each for each in ODD if each not in HOSTILE]
    live.put(board, JOBS, [one | {"job_id": each} for each in more], "odd")

    async def work(client: Client) -> None:
        for job_id in ODD:
            at = f"{client.server.url}/api/v1/jobs/{quote(job_id, safe='')}"
            if job_id in (".", ".."):  # what a client makes of such a path
                at = f"{client.server.url}/api/v1/job"
            for rest, name in (("", "job"), ("/explain", "job_id"), ("/rules", "rules")):
                query = f"?id={job_id}" if job_id in (".", "..") else ""
                async with client.session.get(URL(at + rest + query, encoded=True)) as answer:
                    found = await answer.json()
                assert answer.status == 200, (job_id, rest, found)
                told = found["job"] if name == "job" else found
                assert name in found, rest
                assert name == "rules" or told["job_id"] == job_id, rest
        await client.get("/api/v1/job", 400)
        await client.get("/api/v1/job?id=nobody", 404)

    try:
        served(board, work)
    finally:
        board.delete(JOBS, [Condition("job_id", "in", more)])
