"""Who goes on and was only paid is told in short in a snapshot; the chain comes to the state of the shard all the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.engine.snapshot.writer import unpack
from tests.engine.test_open_accruals import BOOK, MINUTE_MS, Json, Stored, event, feed, moments

JOBS = 5  # each snapshot has one of them whole


class Kept(Stored):
    """A shard with the chain of its snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.chain: list[bytes] = []

    def store(self, after_ms: int, *, pays: bool = True) -> None:
        self.version += 1
        point = self.shard.checkpoint(event("", after_ms)["time_ms"], self.version, open_attempts=pays)
        assert not point.more
        self.chain.append(point.snapshot)

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
            {number: (attempt.booked_lines, attempt.booked_lost) for number, attempt in job.attempts.items()},
        )
        for job in shard.jobs.values()
    }


@settings(max_examples=60, deadline=None)
@given(moments(), st.lists(st.booleans(), min_size=8, max_size=8))
def test_chain_comes_to_the_state_of_the_shard_whatever_was_paid_between_two_of_it(
    story: list[tuple[int, list[Json], list[Json]]], pays: list[bool]
) -> None:
    kept = Kept()
    feed(
        kept.shard, "jobs", [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    )
    kept.store(0)
    for (clock_ms, jobs, nodes), paid in zip(story, pays, strict=False):
        feed(kept.shard, "jobs", jobs)
        feed(kept.shard, "nodes", nodes)
        kept.store(clock_ms, pays=paid)
        assert state(kept.restored()) == state(kept.shard)


def test_payment_is_told_in_short() -> None:
    kept = Kept()
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
    kept = Kept()
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
    kept = Kept()
    feed(
        kept.shard, "jobs", [event("started", 0, job_id=f"j{number}", gpu_count=8) for number in range(JOBS)]
    )
    kept.store(MINUTE_MS)

    def sample(minute: int) -> None:
        feed(
            kept.shard,
            "gpu",
            [
                event("", minute * MINUTE_MS, job_id=f"j{number}", id="", type=None)
                | {"node": "n", "gpus": ["0"], "util_ratio": [0.5], "interval_ms": MINUTE_MS}
                for number in range(JOBS)
            ],
        )

    # Samples make their hour due until it is written, and snapshots say so.
    for minute, pays, told in (
        (2, True, "parts"),
        (3, False, "parts"),
        (4, False, "parts"),
        (5, True, "parts"),
        (6, True, "paid"),
    ):
        sample(minute)
        kept.store(minute * MINUTE_MS, pays=pays)
        assert getattr(unpack(kept.chain[-1]), told)
        assert state(kept.restored()) == state(kept.shard)
    feed(
        kept.shard, "jobs", [event("heartbeat", 7 * MINUTE_MS, job_id=f"j{number}") for number in range(JOBS)]
    )
    kept.store(7 * MINUTE_MS)
    assert unpack(kept.chain[-1]).parts
    assert state(kept.restored()) == state(kept.shard)
    assert len({job.heard_ms for job in kept.restored().jobs.values()}) == 1
