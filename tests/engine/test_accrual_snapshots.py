"""Who goes on and was only paid is told in short in a snapshot; the chain comes to the state of the shard all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import ARCHIVE, ATTEMPTS, JOB_HOURS, JOB_USAGE_MINUTES
from schemas.tables import JOBS as JOBS_TABLE
from streams.engine.settings import ShardSettings
from streams.engine.shard.checkpoint import Checkpoint
from streams.engine.shard.shard import Shard
from streams.engine.shard.snapshot_writer import unpack
from streams.engine.snapshot.job_parts import dump_paid
from tests.engine.test_open_accruals import BOOK, MINUTE_MS, Json, Stored, event, feed, moments

JOBS = 5  # each snapshot has one of them whole


class SnapshotChain(Stored):
    """A shard with the chain of its snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.chain: list[bytes] = []

    def store(self, after_ms: int, *, pays: bool = True, rows_only: bool = False) -> Checkpoint:
        self.version += 1
        point = self.shard.checkpoint(
            event("", after_ms)["time_ms"], self.version, open_attempts=pays, rows_only=rows_only
        )
        assert not point.more
        if point.snapshot:
            self.chain.append(point.snapshot)
        return point

    def restored(self) -> Shard:
        return Shard.restore(0, ShardSettings(), BOOK, self.chain)


def state(shard: Shard) -> dict[str, Any]:
    """What of jobs must come back."""
    return {
        job.id: (
            job.first_ms,
            job.last_ms,
            job.heard_ms,
            job.booked_as_of_ms,
            job.booked_dimensions,
            job.seen.dump(),
            job.id in shard.due.open_jobs,
            job.id in shard.due.sampled_jobs,
            {
                number: (
                    attempt.booked_lines,
                    attempt.booked_lost,
                    attempt.sampled,
                    attempt.owed_hours,
                    attempt.written,
                )
                for number, attempt in job.attempts.items()
            },
        )
        for job in shard.jobs.values()
    }


def samples(minute: int, jobs: Sequence[int] = range(JOBS), attempt: int = 1) -> list[Json]:
    """A busy GPU of each of these jobs, for the minute before an instant."""
    return [
        event("", minute * MINUTE_MS, job_id=f"j{number}", id="", type=None, attempt=attempt)
        | {"node": "n", "gpus": [str(number)], "util_ratio": [0.5], "interval_ms": MINUTE_MS}
        for number in jobs
    ]


def hours_of(point: Checkpoint) -> dict[str, int]:
    """Sampled milliseconds of first attempts that a checkpoint writes, by job."""
    rows = point.tables[JOB_HOURS].to_pylist() if JOB_HOURS in point.tables else ()
    return {row["job_id"]: row["sampled_gpu_ms"] for row in rows if row["attempt"] == 1}


#: Minutes, some in another hour, and the jobs that are sampled then: the last has no event.
sampled_moments = st.lists(
    st.tuples(
        st.integers(1, 20) | st.integers(50, 70),
        st.lists(st.integers(0, JOBS), unique=True),
        st.integers(1, 2),
    ),
    max_size=3,
)


@given(
    moments(),
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=8, max_size=8),
    st.lists(sampled_moments, min_size=8, max_size=8),
)
def test_chain_comes_to_the_state_of_the_shard_whatever_was_paid_between_two_of_it(
    story: list[tuple[int, list[Json], list[Json]]],
    stores: list[tuple[bool, bool]],
    sampled: list[list[tuple[int, list[int], int]]],
) -> None:
    kept = SnapshotChain()
    feed(
        kept.shard, "jobs", [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    )
    kept.store(0)
    for (clock_ms, jobs, nodes), (paid, rows_only), heard in zip(story, stores, sampled, strict=False):
        feed(kept.shard, "jobs", jobs)
        for minute, numbers, attempt in heard:
            feed(kept.shard, "gpu", samples(minute, numbers, attempt))
        feed(kept.shard, "nodes", nodes)
        if kept.store(clock_ms, pays=paid, rows_only=rows_only).snapshot:
            assert state(kept.restored()) == state(kept.shard)
    kept.store(story[-1][0] if story else 0, pays=False)
    assert state(kept.restored()) == state(kept.shard)


def test_rows_alone_leave_the_snapshot_to_a_later_checkpoint_which_is_due_even_if_nothing_else_comes() -> (
    None
):
    kept = SnapshotChain()
    started = [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    feed(kept.shard, "jobs", started)
    first = kept.store(0, rows_only=True)
    assert first.snapshot, "without a first snapshot nothing could be restored"

    feed(kept.shard, "jobs", [event("completed", MINUTE_MS, job_id="j0")])
    point = kept.store(MINUTE_MS, rows_only=True)
    assert point.rows
    assert not point.snapshot
    assert not point.frees
    assert point.next == kept.shard.position.next
    assert kept.shard.snapshots.next == first.next, "what may be committed is what a restart knows"
    assert kept.restored().position.next == first.next

    later = kept.store(MINUTE_MS, pays=False)
    assert (later.parent, later.rows) == (first.version, 0), "one snapshot goes on from the other"
    assert state(kept.restored()) == state(kept.shard)


def test_rows_alone_of_a_node_that_was_paid_leave_a_snapshot_due() -> None:
    kept = SnapshotChain()
    feed(kept.shard, "nodes", [event("provisioned", 0, "", node="n", gpu_count=8)])
    kept.store(0)
    clock_ms = event("", MINUTE_MS)["time_ms"]
    assert kept.store(MINUTE_MS, rows_only=True).rows
    assert kept.shard.unsaved(clock_ms, open_attempts=False)

    kept.store(MINUTE_MS, pays=False)
    assert not kept.shard.unsaved(clock_ms, open_attempts=False)
    assert kept.restored().nodes["n"].booked_as_of_ms == kept.shard.nodes["n"].booked_as_of_ms == clock_ms


def test_payment_is_told_in_short() -> None:
    kept = SnapshotChain()
    feed(
        kept.shard, "jobs", [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    )
    for minute in (1, 2, 3):
        kept.store(minute * MINUTE_MS)
    blob = unpack(kept.chain[-1])
    assert (len(blob.jobs), len(blob.parts), len(blob.paid)) == (1, 0, JOBS - 1)
    feed(
        kept.shard, "jobs", [event("heartbeat", 4 * MINUTE_MS, job_id=f"j{number}") for number in range(JOBS)]
    )
    kept.store(5 * MINUTE_MS)
    blob = unpack(kept.chain[-1])
    assert (len(blob.jobs), len(blob.parts), len(blob.paid)) == (1, JOBS - 1, 0)  # ids of events are news
    assert state(kept.restored()) == state(kept.shard)


def test_payment_on_a_price_that_ends_is_told_line_by_line() -> None:
    """At the change of the price one line ends where the other begins: not all that ended together go on."""
    kept = SnapshotChain()
    feed(
        kept.shard, "jobs", [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    )
    kept.store(7 * MINUTE_MS)
    kept.store(7 * MINUTE_MS + 1)
    kept.store(8 * MINUTE_MS)
    assert not unpack(kept.chain[-1]).paid
    assert state(kept.restored()) == state(kept.shard)
    kept.store(9 * MINUTE_MS)
    assert unpack(kept.chain[-1]).paid
    assert state(kept.restored()) == state(kept.shard)


def test_when_a_job_was_heard_of_comes_back_however_it_was_told() -> None:
    kept = SnapshotChain()
    feed(
        kept.shard, "jobs", [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    )
    kept.store(MINUTE_MS)

    # The first samples of an attempt are news of it; then they make their hour due, once until it is written.
    for minute, pays, told in (
        (2, True, {"parts"}),
        (3, False, {"owed", "sampled"}),
        (4, False, {"sampled"}),
        (5, True, {"paid"}),
        (6, True, {"paid"}),
        (7, False, {"owed", "sampled"}),
    ):
        feed(kept.shard, "gpu", samples(minute))
        kept.store(minute * MINUTE_MS, pays=pays)
        blob = unpack(kept.chain[-1])
        assert {name for name in ("parts", "owed", "sampled", "paid") if getattr(blob, name)} == told
        assert state(kept.restored()) == state(kept.shard)
    feed(
        kept.shard, "jobs", [event("heartbeat", 8 * MINUTE_MS, job_id=f"j{number}") for number in range(JOBS)]
    )
    kept.store(8 * MINUTE_MS)
    assert unpack(kept.chain[-1]).parts
    assert state(kept.restored()) == state(kept.shard)
    assert len({job.heard_ms for job in kept.restored().jobs.values()}) == 1


def test_hour_that_samples_made_due_is_written_after_a_takeover() -> None:
    kept = SnapshotChain()
    feed(kept.shard, "jobs", [event("started", 0, job_id=f"j{number}") for number in range(JOBS)])
    feed(kept.shard, "gpu", samples(1))
    kept.store(MINUTE_MS)
    feed(kept.shard, "gpu", samples(2))
    kept.store(2 * MINUTE_MS, pays=False)
    assert len(unpack(kept.chain[-1]).owed) == JOBS
    kept.store(3 * MINUTE_MS, pays=False)
    for shard in (kept.restored(), kept.shard):
        # At an accrual up to the same instant nothing but the marks tells that the hour differs from its row.
        point = shard.checkpoint(event("", MINUTE_MS)["time_ms"], 4, open_attempts=True)
        assert hours_of(point) == {f"j{number}": 2 * MINUTE_MS for number in range(JOBS)}


def test_first_samples_in_an_hour_that_is_due_anyway_are_in_its_row_after_a_takeover() -> None:
    """Seed 229 of the simulator: an hour that is due is no news, but that the attempt has samples is."""
    kept = SnapshotChain()
    for kind, attempt in (("started", 1), ("failed", 1), ("started", 2)):
        after_ms = MINUTE_MS * (kind == "failed" or attempt == 2)
        jobs = [event(kind, after_ms, job_id=f"j{number}", attempt=attempt) for number in range(JOBS)]
        feed(kept.shard, "jobs", jobs)
    kept.store(2 * MINUTE_MS, pays=False)  # the hour of the first attempt is put off: the second is open
    feed(kept.shard, "gpu", samples(1))
    kept.store(3 * MINUTE_MS, pays=False)
    assert not unpack(kept.chain[-1]).owed
    for shard in (kept.restored(), kept.shard):
        point = shard.checkpoint(event("", 4 * MINUTE_MS)["time_ms"], 3, open_attempts=True)
        assert hours_of(point) == {f"j{number}": MINUTE_MS for number in range(JOBS)}


def test_job_that_still_owes_an_hour_is_not_told_in_short() -> None:
    kept = SnapshotChain()
    feed(kept.shard, "jobs", [event("started", 0, job_id="j0")])
    kept.store(MINUTE_MS)
    job = kept.shard.jobs["j0"]
    job.booked_as_of_ms = event("", 2 * MINUTE_MS)["time_ms"]
    job.attempts[1].unsaved.paid_ms = (event("", MINUTE_MS)["time_ms"], job.booked_as_of_ms)
    job.attempts[1].owed_hours.add(1)
    assert dump_paid(job, 0) is None
    job.attempts[1].owed_hours.clear()
    assert dump_paid(job, 0) is not None


def test_jobs_leave_memory_with_a_snapshot() -> None:
    """Where one went is not to be looked for in the log: the archive has a row of it, and a snapshot says so."""
    kept = SnapshotChain()
    day = 1_440
    feed(kept.shard, "jobs", [event("started", 0), event("completed", MINUTE_MS)])
    kept.store(2 * MINUTE_MS)
    feed(kept.shard, "jobs", [event("started", 2 * day * MINUTE_MS, job_id="k")])
    assert ARCHIVE not in kept.store(2 * day * MINUTE_MS, rows_only=True, pays=False).tables
    assert "j" in kept.shard.jobs
    point = kept.store(2 * day * MINUTE_MS)
    assert ARCHIVE in point.tables
    assert point.snapshot
    assert kept.restored().archived.version_of("j") == point.version


def usage(point: Checkpoint) -> set[tuple[str, int]]:
    """(job, sampled GPU-seconds) of each row of usage."""
    rows = point.tables.get(JOB_USAGE_MINUTES)
    return set() if rows is None else {(row["job_id"], row["sampled_gpu_s"]) for row in rows.to_pylist()}


def seconds(first_s: int, last_s: int, numbers: Sequence[int]) -> list[Json]:
    """A sample of one GPU of each job, within the first minute."""
    return [
        {**event("", 1000 * last_s, f"j{number}"), "interval_ms": 1000 * (last_s - first_s), "node": "n", "gpus": ["g"], "util_ratio": [1]}
        for number in numbers
    ]  # fmt: skip


def test_rows_of_a_running_job_wait_for_its_accrual_unless_they_show_more() -> None:
    kept = SnapshotChain()

    def written(after_ms: int, *, pays: bool = False) -> list[tuple[str, int]]:
        tables = kept.store(after_ms, pays=pays, rows_only=not pays).tables
        assert (JOBS_TABLE in tables) == (ATTEMPTS in tables)
        rows = tables[JOBS_TABLE].to_pylist() if JOBS_TABLE in tables else []
        return [(row["state"], row["wall_clock_ms"]) for row in rows]

    feed(kept.shard, "jobs", [event("started", 0)])
    assert written(0, pays=True) == [("running", 0)]
    feed(kept.shard, "jobs", [event("checkpointed", 1_000)])
    assert written(2_000) == []
    feed(kept.shard, "jobs", [event("suspended", 3_000)])
    assert written(4_000) == [("suspended", 3_000)]
    feed(kept.shard, "jobs", [event("resumed", 5_000)])
    assert written(6_000) == [("running", 4_000)]
    feed(kept.shard, "jobs", [event("checkpointed", 7_000)])
    assert written(8_000) == []
    assert written(8_000, pays=True) == [("running", 6_000)]
    feed(kept.shard, "jobs", [event("completed", 9_000)])
    assert written(9_000) == [("completed", 7_000)]


def test_usage_of_a_running_minute_waits_for_a_snapshot_but_of_new_and_of_changed_jobs() -> None:
    kept = SnapshotChain()
    feed(kept.shard, "jobs", [event("started", 0, job_id=f"j{number}") for number in range(3)])
    feed(kept.shard, "gpu", seconds(0, 5, [0, 1]))
    assert usage(kept.store(0)) == {("j0", 5), ("j1", 5)}

    feed(kept.shard, "jobs", [event("completed", 7000, job_id="j1")])
    feed(kept.shard, "gpu", seconds(5, 7, [0, 1, 2]))
    assert usage(kept.store(0, pays=False, rows_only=True)) == {("j1", 7), ("j2", 2)}
    feed(kept.shard, "gpu", seconds(7, 8, [0]))
    assert not usage(kept.store(0, pays=False, rows_only=True))
    assert usage(kept.store(0, pays=False)) == {("j0", 8)}, "a snapshot counts it as stored"
    assert not usage(kept.store(MINUTE_MS, pays=False))

    feed(kept.shard, "gpu", seconds(8, 9, [0]))
    kept.shard.owe_books()
    assert usage(kept.store(0, pays=False, rows_only=True)) == {("j0", 9)}, (
        "books say that tables are complete"
    )
