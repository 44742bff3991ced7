"""A worker's audit of itself finds nothing wrong in a real run, and everything that is broken by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from schemas.tables import JOB_MINUTES, PRICES, SCHEMAS
from schemas.units import Per, divisor
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from streams.engine.batch import LogBatch
from streams.engine.pricing.kinds import UNIT_OF_KIND, kind_of_price
from streams.engine.pricing.rows import price_table
from streams.selfcheck.audit.live import CHAIN_EVERY
from streams.selfcheck.audit.sql import DIVISOR
from streams.selfcheck.audit.verdict import Verdict
from streams.worker.ingest.watermarks import Mark
from tests.selfcheck.lab import PRICES_ASKED, T0, Lab, fault, lifecycle, price, sample


def run(store: ClickHouseStore, work: Callable[[Lab], Awaitable[None]]) -> Verdict:
    async def go() -> Verdict:
        lab = await Lab(store).live()
        first = await lab.verdict()
        assert first.ok, first.faults
        await work(lab)
        return await lab.verdict()

    return asyncio.run(go())


async def nothing(_: Lab) -> None:
    """A run as it should be."""


def test_a_real_run_balances_and_says_of_how_much(store: ClickHouseStore) -> None:
    verdict = run(store, nothing)
    assert verdict.ok, verdict.faults
    said = {finding.check: finding.detail for finding in verdict.findings}
    assert said["books"] == "14 records in 4 partitions are accounted for"
    assert said["dead_letters"] == "2 dead letters, 0 of them sampled out"
    assert said["intake"] == "14 fetched records went where they should"
    books = {book.topic: book for book in verdict.books}
    assert (books["jobs"].applied, books["jobs"].duplicate, books["jobs"].dead_lettered) == (6, 1, 1)
    minutes = int(said["ledger_windows"].split()[0])
    assert minutes > 100  # six jobs, of which each has its last minutes


def broken(sql: str) -> Callable[[Lab], Awaitable[None]]:
    async def work(lab: Lab) -> None:
        lab.run(sql)

    return work


def test_a_ledger_row_that_is_gone_is_missed(store: ClickHouseStore) -> None:
    gone = broken(
        f"DELETE FROM job_minutes WHERE job_id = 'j3' AND component = 'license' AND minute = {T0 // 1000 + 120}"
    )
    found = fault(run(store, gone), "ledger_windows")
    assert found.subject == "job j3"
    assert "minute 2024-01-01 00:02 of job j3 costs $0.0" in found.detail
    assert "`trainfare audit --recount FROM TO` says which rows are wrong" in found.detail


def test_a_cost_that_was_changed_is_found(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        where = [Condition("job_id", "=", "j4"), Condition("component", "=", "gpu")]
        rows = lab.store.select(JOB_MINUTES, where).slice(0, 1).to_pylist()
        row = rows[0] | {"version": lab.shard.snapshots.version + 1}
        row["cost_usd"] += row["cost_usd"]
        lab.store.insert(JOB_MINUTES, pa.Table.from_pylist([row], schema=SCHEMAS[JOB_MINUTES]), "wrong")
        await lab.send("jobs", [lifecycle("j4", "heartbeat", 570_000)])
        await lab.pass_time(10 * 60_000)

    verdict = run(store, work)
    assert {each.check for each in verdict.faults} == {"ledger_costs", "ledger_windows", "node_balance"}
    said = next(each.detail for each in verdict.faults if each.check == "ledger_costs")
    assert (
        "rows of `job_minutes` cost something other than quantity x price: j4 minute 2024-01-01 00:00:00 sku gpu"
        in said
    )


def test_a_price_that_was_corrected_says_nothing_of_the_rows_before_it(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        await lab.pass_time(12 * 60_000)  # rows at the old divisor, which no audit has seen yet
        corrected = price({**PRICES_ASKED[0], "gpus": 8, "id": "gpu again", "time_ms": T0 + 1})
        lab.store.insert(PRICES, price_table([corrected], 2), "corrected")
        await lab.shard_manager.set_book(lab.shard_manager.book.with_events([corrected]))
        lab.shard_manager.reference.extend([(lab.clock_ms, corrected)], [], lab.shard_manager.book, {})
        await lab.pass_time(13 * 60_000)

    verdict = run(store, work)
    assert verdict.ok, verdict.faults


def test_a_lost_dead_letter_is_missed(store: ClickHouseStore) -> None:
    found = fault(run(store, broken("DELETE FROM dead_letters WHERE topic = 'gpu'")), "dead_letters")
    assert (found.subject, found.expected, found.found) == ("gpu/0", "1", "0")
    assert "1 are lost" in found.detail


@pytest.mark.parametrize(
    ("name", "said"), [("applied", "accounted for twice"), ("records_in", "not accounted for")]
)
def test_a_tally_that_is_off_by_one_is_found(store: ClickHouseStore, name: str, said: str) -> None:
    async def work(lab: Lab) -> None:
        tally = lab.shard.tallies["jobs"]
        setattr(tally, name, getattr(tally, name) + 1)

    verdict = run(store, work)
    found = next(each for each in verdict.faults if each.check == "books")
    assert found.subject == "jobs/0"
    assert f": 1 are {said}" in found.detail


def test_a_record_that_was_skipped_on_the_way_is_missed(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        owned = lab.shard_manager.owned[0]
        feed = owned.feed

        def lossy(batch: LogBatch) -> bool:
            return feed(replace(batch, records=batch.records[1:]))

        owned.feed = lossy  # type: ignore[method-assign]  # a transport that loses the first record of a batch
        await lab.send("jobs", [lifecycle("j4", "heartbeat", 570_000), lifecycle("j3", "heartbeat", 570_000)])
        await lab.pass_time(10 * 60_000)

    found = fault(run(store, work), "intake")
    assert "2 records were folded since the shard is here" not in found.detail
    assert "10 records were folded since the shard is here, its books grew by 9" in found.detail


def test_a_damaged_snapshot_chunk_is_found(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        lab.run(
            "ALTER TABLE snapshots UPDATE blob = concat('x', substring(blob, 2)) WHERE parent = 0 "
            "SETTINGS mutations_sync = 2"
        )
        for _ in range(CHAIN_EVERY - 1):  # until it is read again
            assert (await lab.verdict()).ok

    found = fault(run(store, work), "snapshots")
    assert found.subject == "shard 0"
    assert "which is damaged: a new owner begins with an older one" in found.detail


def test_a_snapshot_ahead_of_the_log_is_found(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        lab.ends["jobs", 0] = 3

    found = fault(run(store, work), "snapshots")
    assert (
        "the snapshot awaits offset 8 of jobs/0, the log ends at 3: the topic was made anew" in found.detail
    )


def test_a_commit_ahead_of_the_snapshot_is_found(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        lab.committed = {("jobs", 0): 8, ("gpu", 0): 4}

    found = fault(run(store, work), "snapshots")
    assert found.subject == "gpu/0"
    assert "offset 4 of gpu/0 is committed, the snapshot awaits 3: something else commits" in found.detail


def test_a_worker_that_the_group_has_given_up_says_nothing_of_what_others_store(
    store: ClickHouseStore,
) -> None:
    async def go() -> None:
        lab = await Lab(store).live()
        lab.committed = {("jobs", 0): 99}
        lab.consumer.member = False
        assert await lab.audit.run_twice() is None
        assert lab.audit.last is None

    asyncio.run(go())


def test_two_writers_of_one_version_are_found(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        await lab.send("jobs", [lifecycle("j4", "heartbeat", 570_000)])
        await lab.pass_time(10 * 60_000)
        version = lab.shard.snapshots.version
        lab.run("SYSTEM STOP MERGES job_minutes")
        lab.run(
            f"INSERT INTO job_minutes SELECT * REPLACE(quantity * 2 AS quantity, cost_usd * 2 AS cost_usd) FROM job_minutes WHERE version = {version}"
        )

    try:
        verdict = run(store, work)
    finally:
        store._connection.call(lambda client: client.command("SYSTEM START MERGES job_minutes"))
    said = next(each.detail for each in verdict.faults if each.check == "one_writer")
    assert "two workers own one shard" in said


def test_idle_time_that_is_not_worth_its_price_is_found(store: ClickHouseStore) -> None:
    wrong = broken(
        "ALTER TABLE node_minutes UPDATE cost_usd = cost_usd + 0.01 WHERE minute < toDateTime(1704067260) SETTINGS mutations_sync = 2"
    )
    found = fault(run(store, wrong), "node_balance")
    assert found.subject == "node n1"
    assert "minute 2024-01-01 00:00:00 of node n1" in found.detail


def test_a_fault_stays_in_the_verdict_until_it_is_mended(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        lab.run("DELETE FROM dead_letters WHERE topic = 'gpu'")
        assert not (await lab.verdict()).ok

    assert not run(store, work).ok


def test_a_restored_shard_balances_from_where_its_snapshot_ends(store: ClickHouseStore) -> None:
    async def work(lab: Lab) -> None:
        await lab.own(generation=3)  # others may have had it meanwhile: everything comes from the store
        await lab.send("gpu", [sample("m1", 560_000)])
        await lab.send("jobs", [lifecycle("j4", "completed", 570_000)])
        await lab.pass_time(10 * 60_000)
        await lab.pass_time(11 * 60_000)

    verdict = run(store, work)
    assert verdict.ok, verdict.faults
    said = {finding.check: finding.detail for finding in verdict.findings}
    assert int(said["ledger_windows"].split()[0]) > 100
    assert said["books"] == "16 records in 4 partitions are accounted for"


def test_jobs_that_changed_since_their_rows_were_taken_are_left_to_the_next_look(
    store: ClickHouseStore,
) -> None:
    async def work(lab: Lab) -> None:
        await lab.send("jobs", [lifecycle("j3", "scaled", 300_000, gpu_count=2)])
        lab.clock_ms += 1_000
        lab.watermarks.mark = Mark(lab.clock_ms, dict(lab.ends))
        await lab.shard_manager.ingest.advance_all()  # folded, and neither judged nor stored

    verdict = run(store, work)
    assert verdict.ok, verdict.faults


@pytest.mark.parametrize("per", list(Per))
def test_the_divisor_of_every_price_is_the_meters(store: ClickHouseStore, per: Per) -> None:
    for gpus in (0, 1, 7):
        unit = UNIT_OF_KIND[kind_of_price(per, gpus)]
        found = store.query(
            f"SELECT toString({DIVISOR}) AS divisor FROM (SELECT '{unit}' AS unit) AS r, "
            f"(SELECT '{per}' AS per, {gpus} AS gpus) AS p"
        )
        assert found["divisor"].to_pylist() == [str(divisor(per, gpus))]
