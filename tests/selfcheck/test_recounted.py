"""What a recount compares and what it leaves out, and how many faults a verdict tells."""

from __future__ import annotations

from schemas.tables import JOB_MINUTES, NODE_MINUTES
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.selfcheck.audit.verdict import FAULTS_LISTED, AuditFinding, findings
from streams.selfcheck.recount.recount import Recount, Span, StoredLedger
from streams.selfcheck.recount.recount_result import RecountResult
from tests.engine.test_shard import records
from tests.selfcheck.lab import PRICES_ASKED, T0, lifecycle, node, price

MINUTE_MS = 60_000
SPAN = Span(T0, T0 + 10 * MINUTE_MS)
PAID_MS = T0 + 5 * MINUTE_MS
STARTED = {"gpu_count": 2, "nodes": {"n1": 2}}


def metered(*late: tuple[str, dict[str, object]], paid_ms: int = PAID_MS) -> Recount:
    """Two jobs on a node, all paid up to the fifth minute, then what came after."""
    book = PriceBook.empty().with_events(price(asked) for asked in PRICES_ASKED)
    again = Recount(3, ShardSettings(run_start_ms=2**60), book, SPAN, paid_ms)
    jobs = [lifecycle(job, "started", 0, **STARTED) for job in ("a", "b")]
    for topic, before in (("jobs", jobs), ("nodes", [node("n1", "provisioned", 0)])):
        after = [event for of, event in late if of == topic]
        values = records([*before, *after])
        stamped = [
            LogRecord(each.offset, T0 if at < len(before) else PAID_MS + 1, each.value)
            for at, each in enumerate(values)
        ]
        again.feed(LogBatch(topic, 3, 0, len(stamped), stamped))
    again.finish(PAID_MS)
    return again


def test_what_goes_on_and_changed_after_it_was_paid_is_not_compared() -> None:
    late = (
        ("jobs", lifecycle("a", "scaled", 4 * MINUTE_MS, gpu_count=1)),
        ("jobs", lifecycle("b", "completed", 4 * MINUTE_MS)),
        ("nodes", node("n1", "draining", 4 * MINUTE_MS)),
    )
    assert metered(*late).unsettled == {"a", "n1"}  # b has ended: its rows were written with its end
    assert metered(*late, paid_ms=2**62).unsettled == frozenset()
    assert metered().unsettled == frozenset()


def test_rows_that_are_newer_than_the_books_and_jobs_without_their_beginning_are_left_out() -> None:
    again = metered()
    mine = {table: dict(rows) for table, rows in again.rows.items()}
    assert len(mine[JOB_MINUTES]) == 2 * 2 * 5  # two jobs, GPU and licence, five minutes
    assert len(mine[NODE_MINUTES]) == 5
    first, second, *_ = (key for key in mine[JOB_MINUTES] if key[0] == "a")
    del mine[JOB_MINUTES][first]
    stored = {table: StoredLedger(rows, frozenset()) for table, rows in mine.items()}
    found = RecountResult()
    found.add(again, stored, [], 10)
    assert (found.agree, found.missing, found.ok) == (24, 1, False)
    stored[JOB_MINUTES] = StoredLedger(mine[JOB_MINUTES], frozenset({first}))
    found = RecountResult()
    found.add(again, stored, [], 10)
    assert (found.agree, found.newer, found.ok) == (24, 1, True)
    stored[JOB_MINUTES] = StoredLedger(mine[JOB_MINUTES] | {second: (1, 1, 1, 0, 0)}, frozenset())
    found = RecountResult()
    found.add(again, stored, ["a"], 10)
    assert (found.agree, found.unverifiable, found.ok) == (15, ["a"], True)


def test_a_row_of_quantity_0_is_no_row() -> None:
    again = metered()
    gone = (("z", 1, 0, "", "gpu", "running", "gpu", 0, "gpu_milli_ms"), (3_600_000_000, 0, 0, 0, 0))
    stored = {table: StoredLedger(dict(rows), frozenset()) for table, rows in again.rows.items()}
    stored[JOB_MINUTES].rows[gone[0]] = gone[1]
    found = RecountResult()
    found.add(again, stored, [], 10)
    assert found.ok


def test_of_many_faults_the_first_are_told_and_the_others_counted() -> None:
    faults = [
        AuditFinding("books", str(at), "0", "1", ok=False, detail=str(at)) for at in range(FAULTS_LISTED + 3)
    ]
    found = findings("books", faults, "all", "nothing")
    assert [each.detail for each in found[:FAULTS_LISTED]] == [str(at) for at in range(FAULTS_LISTED)]
    assert found[-1].found == "3 more"
    assert not found[-1].ok
    (good,) = findings("books", (), "all", "7 records")
    assert (good.ok, good.detail) == (True, "7 records")
