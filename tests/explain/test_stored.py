"""A job out of its shard's snapshots is the job as its shard knows it, and what is kept for it stays within its limit."""

from __future__ import annotations

from collections.abc import Container

import pytest

from sinks.snapshots import Snapshots
from streams.engine.snapshot.job_blobs import JobBlob, dump_job
from streams.explain.stored import StoredJobs
from tests.engine.test_open_accruals import MINUTE_MS, Stored, event, feed
from tests.memory_store import MemoryStore

JOBS = 60
PAYMENTS = 60


class Live(Stored):
    """A shard whose snapshots are stored as a worker stores them."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.store_of_snapshots = store
        names = [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
        feed(self.shard, "jobs", names)

    def checkpoint(self, after_ms: int) -> None:
        self.version += 1
        point = self.shard.checkpoint(event("", after_ms)["time_ms"], self.version, open_attempts=True)
        self.store_of_snapshots.snapshots.save(0, point.version, point.parent, point.snapshot, point.root)

    def known(self, job_id: str) -> JobBlob:
        return dump_job(self.shard.jobs[job_id])


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def booked(job: JobBlob | None) -> list[tuple[object, ...]]:
    assert job is not None
    return [(attempt.number, attempt.events, attempt.booked_lines) for attempt in job.attempts]


def test_a_live_job_over_sixty_payments_is_told_exactly(store: MemoryStore) -> None:
    """Most snapshots of a job that goes on have nothing of it but a payment."""
    live, stored = Live(store), StoredJobs()
    for number in range(PAYMENTS):
        live.checkpoint(number * MINUTE_MS)
        for job_id in ("j0", "j7", f"j{number}"):
            assert booked(stored.job(store, 0, job_id)) == booked(live.known(job_id))
    for number in range(JOBS):
        assert booked(stored.job(store, 0, f"j{number}")) == booked(live.known(f"j{number}"))
    assert stored.job(store, 0, "nobody") is None


class Counted:
    """The snapshots of a store, and how many blobs were fetched."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self.fetched = 0

    def load_unknown(self, shard: int, known: Container[int]) -> list[tuple[int, bytes | None]]:
        found = self._snapshots.load_unknown(shard, known)
        self.fetched += sum(blob is not None for _, blob in found)
        return found


@pytest.mark.parametrize("kept_max_bytes", [0, 20_000, 2**20])
def test_what_is_kept_is_bounded_and_not_fetched_again(
    kept_max_bytes: int, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, stored = Live(store), StoredJobs(kept_max_bytes)
    counted = Counted(store.snapshots)
    for number in range(10):
        live.checkpoint(number * MINUTE_MS)
    monkeypatch.setattr(store, "snapshots", counted)
    first = booked(stored.job(store, 0, "j1"))
    once = counted.fetched
    assert booked(stored.job(store, 0, "j1")) == first
    again = counted.fetched - once
    assert stored._kept_bytes <= kept_max_bytes
    assert stored._kept_bytes == sum(each.size_bytes for each in stored._kept.values())
    assert (again == 0) == (kept_max_bytes == 2**20)
    assert (again == once) == (kept_max_bytes == 0)
