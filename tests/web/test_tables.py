"""GET /api/v1/tables: each table with its columns, and examples that work on any store."""

from __future__ import annotations

from typing import Any

from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.tables_page import columns_of
from streams.web.tables import EXAMPLES, first_sentence
from tests.web.serving import BEARER, TOKEN, Client, served


def test_every_table_has_its_columns_as_the_page_of_tables_lists_them(store: ClickHouseStore) -> None:
    found = served(store, lambda client: client.get("/api/v1/tables"))
    listed = {
        table["name"]: ", ".join(f"`{column['name']}` {column['type']}" for column in table["columns"])
        for table in found["tables"]
    }
    assert listed == columns_of(store)
    views = [table["is_view"] for table in found["tables"]]
    assert views == sorted(views, reverse=True), "views come first: they have current rows"
    (jobs,) = (table for table in found["tables"] if table["name"] == "job_costs")
    assert jobs["is_view"]
    assert jobs["about"] == "Everything of one job, also of one without any cost."


def test_the_words_of_a_view_have_no_links() -> None:
    assert first_sentence("[`job_hours`](#job_hours) with [more](x.md). And: other things.") == (
        "job_hours with more."
    )


def test_each_example_runs_on_a_store_with_jobs(store: ClickHouseStore) -> None:
    """On an empty one: test_examples_empty.py."""

    async def work(client: Client) -> list[Any]:
        return [await client.ask({"sql": each.sql}) for each in EXAMPLES]

    answers = served(store, work)
    # The log of these tests has no nodes and no traffic.
    without = {"Idle cost of nodes per day", "Network and storage by path and operation"}
    assert {
        each.title for each, answer in zip(EXAMPLES, answers, strict=True) if not answer["rows"]
    } == without


def test_it_needs_the_scope_read(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        error = (await client.get("/api/v1/tables", 401))["error"]
        assert "scope `read`" in error["message"]
        assert (await client.get("/api/v1/tables", headers=BEARER))["tables"]

    served(store, work, token=TOKEN)
