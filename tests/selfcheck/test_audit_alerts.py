"""What an audit finds wrong pages, of the shard it is wrong in; the next owner of the shard goes on with it."""

from __future__ import annotations

from streams.clock import ManualClock
from streams.engine.alerts.meter_rules import BOOKS_UNBALANCED
from streams.selfcheck.alerts.audit_alerts import AuditAlerts
from streams.selfcheck.audit.verdict import AuditFinding, Verdict
from streams.worker.shards.owned_shard import OwnedShard
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, run
from tests.selfcheck.test_self_alerts import Life, holding, stored


def wrong(check: str, subject: str) -> AuditFinding:
    return AuditFinding(check, subject, "5", "4", ok=False, detail=f"one record of {subject} is missing")


def fine(check: str) -> AuditFinding:
    return AuditFinding(check, "all partitions", "no difference", "none", ok=True, detail="fine")


class Audited:
    """A life whose audits are given by hand."""

    def __init__(self, store: MemoryStore, clock: ManualClock, shards: int = 2, generation: int = 1) -> None:
        self.life = Life(store, clock, generation, shards)
        self.verdict: Verdict | None = None
        self.books = AuditAlerts(lambda: self.verdict, lambda: self.life.owned, self.life.alerts, clock)
        self.books.run_once()

    async def audit(self, *findings: AuditFinding) -> None:
        self.life.clock.advance(30_000)
        self.verdict = Verdict(self.life.clock.now_ms(), (fine("totals"), *findings))
        self.books.run_once()
        self.books.run_once()
        await self.life.step()

    @property
    def told(self) -> list[tuple[str, str]]:
        data = [sent.body["data"] for sent in self.life.office.sender.sent]
        assert {each["rule"] for each in data} <= {BOOKS_UNBALANCED}
        return [(each["subject"]["name"], each["status"]) for each in data]


def test_a_breach_pages_until_the_books_balance_again() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        worker = Audited(store, ManualClock(NOW_MS))
        await worker.audit(fine("books"))
        assert worker.told == []
        await worker.audit(wrong("books", "jobs/1"), wrong("books", "gpu/1"))
        assert worker.told == [("books of shard 1", "firing")], "one alert for a check and shard"
        (row,) = stored(store)
        assert (row["shard"], row["severity"]) == (1, "page")
        assert row["summary"] == "jobs/1: one record of jobs/1 is missing"
        assert row["evidence_sql"] == "SELECT * FROM books FINAL WHERE shard = 1 ORDER BY topic, partition"
        await worker.audit(wrong("books", "gpu/1"))
        await worker.audit(fine("books"))
        assert worker.told[1:] == [("books of shard 1", "resolved")]

    run(scenario())


def test_what_is_of_no_shard_is_told_by_the_lowest() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        worker = Audited(store, ManualClock(NOW_MS))
        subjects = ("job a/1", "shard 9", "all jobs", "shard 1")
        await worker.audit(*(wrong(f"check{at}", subject) for at, subject in enumerate(subjects)))
        rows = sorted((row["subject_name"], row["shard"]) for row in stored(store))
        assert rows == [("check0", 0), ("check1", 0), ("check2", 0), ("check3 of shard 1", 1)]

    run(scenario())


def test_the_next_owner_goes_on_and_ends_what_is_over() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        first = Audited(store, clock)
        await first.audit(wrong("books", "jobs/1"), wrong("totals", "all jobs"))
        assert len(first.told) == 2
        second = Audited(store, clock, generation=2)
        await second.audit(wrong("books", "jobs/1"))
        assert second.told == [("totals", "resolved")], "also what it never heard of itself"
        await second.audit()
        assert second.told[1:] == [("books of shard 1", "resolved")]

    run(scenario())


def test_an_audit_from_before_the_shard_came_says_nothing_of_it() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        await Audited(store, clock).audit(wrong("books", "jobs/1"))
        second = Audited(store, clock, shards=1, generation=2)
        await second.audit()
        came: OwnedShard = holding(1, 3)
        second.life.owned[1] = came
        second.books.run_once()
        await second.life.step()
        assert second.told == []
        await second.audit()
        assert second.told == [("books of shard 1", "resolved")]

    run(scenario())


def test_a_worker_without_shards_or_audits_says_nothing() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        worker = Audited(store, ManualClock(NOW_MS), shards=0)
        await worker.audit(wrong("books", "jobs/1"))
        assert stored(store) == []

    run(scenario())
