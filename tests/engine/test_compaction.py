"""Rounds through a shard: each snapshot carries a slice, the root moves up, and a chain from it has everything."""

from __future__ import annotations

import gc
import weakref

import msgspec
import pytest

from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard import snapshot_writer
from streams.engine.shard.checkpoint import Checkpoint
from streams.engine.shard.shard import Shard
from streams.engine.snapshot.job_blobs import JobBlob
from tests.engine.test_shard import T0, event, records

JOBS, SNAPSHOTS, ROUND = 60, 80, 20
SETTINGS = ShardSettings(snapshots_per_round=ROUND)


def gpu(job: int, after_ms: int) -> dict[str, object]:
    return {
        "source": "s", "id": f"g{after_ms}.{job}", "time_ms": T0 + after_ms, "interval_ms": 1000,
        "job_id": f"j{job}", "node": f"n{job % 7}", "gpus": ["a", "b"], "util_ratio": [0.5, job / JOBS],
    }  # fmt: skip


def feed(shard: Shard, topic: str, *events: dict[str, object]) -> None:
    first = shard.position.next.get(topic, 0)
    batch = LogBatch(topic, 3, first, first + len(events), records(events, first))
    assert shard.fold(batch) is None


def moved(shard: Shard, turn: int) -> None:
    """Something of one job in a few, an amount of another."""
    job = turn % JOBS
    feed(shard, "gpu", gpu(job, 60_000 + turn * 1000))
    feed(shard, "jobs", event("heartbeat", turn * 1000, f"j{job}"))
    amount = {"interval_ms": 1000, "bytes": turn, "path": "internet", "direction": "egress"}
    named = {"source": "s", "id": f"t{turn}", "time_ms": T0 + turn * 1000, "job_id": f"j{(turn * 7) % JOBS}"}
    feed(shard, "network", named | amount)


def rolled() -> tuple[Shard, list[Checkpoint]]:
    shard = Shard(3, SETTINGS, PriceBook.empty())
    for job in range(JOBS):
        if job % 3:
            feed(shard, "jobs", event("started", job, f"j{job}", gpu_count=2))
        feed(shard, "gpu", *(gpu(job, second * 1000) for second in range(1, 60)))
    node = {"source": "s", "id": "p", "time_ms": T0, "node": "n1", "type": "provisioned", "gpu_count": 8}
    feed(shard, "nodes", node)
    points = []
    for turn in range(SNAPSHOTS):
        moved(shard, turn)
        points.append(shard.checkpoint(T0 + turn * 1000, turn + 1, open_attempts=turn % 10 == 0))
    return shard, points


def chain_of(points: list[Checkpoint], last: int) -> list[bytes]:
    return [point.snapshot for point in points[:last] if point.version >= points[last - 1].root]


def test_the_root_moves_round_after_round_and_no_snapshot_but_the_first_has_many_jobs_whole() -> None:
    _, points = rolled()
    assert [point.parent for point in points] == list(range(SNAPSHOTS))
    roots = sorted({point.root for point in points})
    assert roots[0] == 1
    assert len(roots) >= 3
    assert next(point.version for point in points if point.frees) == 1
    assert sum(point.frees for point in points) == len(roots)
    whole = [len(snapshot_writer.unpack(point.snapshot).jobs) for point in points]
    assert whole[0] == JOBS
    assert max(whole[1:]) <= JOBS // 4


def test_each_job_of_a_chain_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, points = rolled()
    chain = chain_of(points, SNAPSHOTS - 1)
    decoded: list[str] = []
    decode = snapshot_writer.whole_job

    def noted(raw: msgspec.Raw) -> JobBlob:
        assert not gc.isenabled()
        job = decode(raw)
        decoded.append(job.id)
        return job

    monkeypatch.setattr(snapshot_writer, "whole_job", noted)
    Shard.restore(3, SETTINGS, PriceBook.empty(), chain)
    assert sorted(decoded) == sorted(f"j{job}" for job in range(JOBS))
    assert sum(len(snapshot_writer.whole_jobs(data)) for data in chain) > JOBS
    assert gc.isenabled()


@pytest.mark.parametrize("last", [1, 2, ROUND, ROUND + 5, SNAPSHOTS - 1])
def test_a_chain_from_its_root_is_the_shard(last: int) -> None:
    _, points = rolled()
    again = Shard.restore(3, SETTINGS, PriceBook.empty(), chain_of(points, last))
    whole = Shard.restore(3, SETTINGS, PriceBook.empty(), [point.snapshot for point in points[:last]])
    for turn in range(SNAPSHOTS, SNAPSHOTS + 5):
        moved(again, turn)
        moved(whole, turn)
    ends = [machine.checkpoint(T0 + 10**6, 10**6, open_attempts=True) for machine in (again, whole)]
    assert ends[0].tables == ends[1].tables
    assert set(again.jobs) == set(whole.jobs)
    assert (again.due.open_jobs, again.due.sampled_jobs, again.books) == (
        whole.due.open_jobs, whole.due.sampled_jobs, whole.books,
    )  # fmt: skip
    for job_id, job in again.jobs.items():
        found, expected = (
            snapshot_writer.job_blobs(again, [job], 1),
            snapshot_writer.job_blobs(whole, [whole.jobs[job_id]], 1),
        )
        assert list(found) == list(expected)


def test_the_root_moves_also_where_owners_change_before_a_round_ends() -> None:
    shard, points = rolled()
    longest = 0
    for turn in range(SNAPSHOTS, SNAPSHOTS + 10 * ROUND):
        moved(shard, turn)
        point = shard.checkpoint(T0 + turn * 1000, turn + 1, open_attempts=False)
        points.append(point)
        if turn % (ROUND // 2) == 0:
            blobs = chain_of(points, len(points))
            shard = Shard.restore(3, SETTINGS, PriceBook.empty(), blobs)
            longest = max(longest, len(blobs))
    assert longest < 8 * ROUND


def test_a_chain_without_its_root_is_refused() -> None:
    _, points = rolled()
    with pytest.raises(ValueError, match="do not begin early enough"):
        Shard.restore(3, SETTINGS, PriceBook.empty(), chain_of(points, SNAPSHOTS)[ROUND // 2 + 2 :])


def test_what_goes_on_is_paid_in_pieces() -> None:
    few = ShardSettings(things_per_checkpoint=7)
    shard, twin = Shard(3, few, PriceBook.empty()), Shard(3, ShardSettings(), PriceBook.empty())
    for machine in (shard, twin):
        feed(machine, "jobs", *(event("started", 0, f"j{job}", gpu_count=1) for job in range(20)))
        names = [{"node": f"n{n}", "id": f"p{n}", "type": "provisioned"} for n in range(9)]
        feed(machine, "nodes", *({"source": "s", "time_ms": T0, "gpu_count": 8} | each for each in names))
    for minute in (1, 2):
        parts = [shard.checkpoint(T0 + minute * 60_000, 100 * minute, open_attempts=True)]
        while parts[-1].more:
            version = parts[-1].version + 1
            parts.append(shard.checkpoint(T0 + minute * 60_000, version, open_attempts=True))
        whole = twin.checkpoint(T0 + minute * 60_000, minute, open_attempts=True)
        assert len(parts) >= 5
        for name in ("job_minutes", "node_minutes", "jobs"):
            assert (
                sum(p.tables[name].num_rows for p in parts if name in p.tables) == whole.tables[name].num_rows
            )
        again = shard.checkpoint(T0 + minute * 60_000, 100 * minute + 50, open_attempts=True)
        assert set(again.tables) == {"books"}


def test_what_changed_may_take_all_the_room_and_what_goes_on_is_paid_next() -> None:
    shard = Shard(3, ShardSettings(things_per_checkpoint=4), PriceBook.empty())
    feed(shard, "jobs", *(event("started", 0, f"j{job}", gpu_count=1) for job in range(6)))
    version, more = 1, True
    while more:
        more, version = shard.checkpoint(T0 + 60_000, version, open_attempts=True).more, version + 1
    feed(shard, "jobs", *(event("scaled", 30, f"j{job}", gpu_count=2) for job in range(4)))
    first = shard.checkpoint(T0 + 120_000, version, open_attempts=True)
    assert first.more
    second = shard.checkpoint(T0 + 120_000, version + 1, open_attempts=True)
    assert sorted(second.tables["jobs"]["job_id"].to_pylist()) == ["j4", "j5"]
    assert not second.more


def test_a_shard_that_nobody_holds_is_gone_at_once() -> None:
    # Not with the next collection of old cycles: owners change, and shards are large.
    gc.collect()
    gc.disable()
    try:
        shard, points = rolled()
        again = Shard.restore(3, SETTINGS, PriceBook.empty(), chain_of(points, SNAPSHOTS))
        moved(again, SNAPSHOTS)
        again.checkpoint(T0 + SNAPSHOTS * 1000, SNAPSHOTS + 1, open_attempts=True)
        left = weakref.ref(shard), weakref.ref(again)
        del shard, again
        assert [each() for each in left] == [None, None]
    finally:
        gc.enable()
