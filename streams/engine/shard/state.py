"""The state of one shard: everything that a checkpoint stores and a restore loads.

It holds the parts together and decides nothing: folding, ticks, checkpoints and snapshots are separate modules, each of
which receives this state or the part that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from streams.engine.burn.reference_news import TrackedJobs
from streams.engine.burn.tracker import BurnTracker
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.ids import SeenIds
from streams.engine.ledger.sums import LedgerSums
from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.shard_prices import ShardPrices
from streams.engine.settings import ShardSettings
from streams.engine.shard.ahead_records import AheadRecords
from streams.engine.shard.books import Books, Tally
from streams.engine.shard.dead_letters import RefusedRecords
from streams.engine.shard.job_checkpoints import JobCheckpoints
from streams.engine.shard.partitioning import PartitionCheck
from streams.engine.shard.parts import DueWork, LogPosition
from streams.engine.shard.samples import SampleColumns
from streams.engine.shard.snapshot_progress import SnapshotProgress
from streams.engine.snapshot.archive_index import ArchiveIndex
from streams.engine.snapshot.compaction import ShardContents
from streams.engine.state.job import JobBook
from streams.engine.state.node import NodeState


class ShardState:
    """The state of one partition number of `jobs`, `gpu`, `network`, `storage` and `nodes`."""

    def __init__(self, number: int, settings: ShardSettings, book: PriceBook, id_seed: bytes = b"") -> None:
        self.number, self.settings = number, settings
        self.position = LogPosition()
        self.jobs = JobBook()
        self.nodes: dict[str, NodeState] = {}
        self.coverage = Coverage(settings.late_horizon_ms // 1000, settings.max_idle_gpus)
        self.partition = PartitionCheck(number, settings.partitions, self.jobs)
        self.samples = SampleColumns(self.partition)
        # One table per topic: the topics have no common order, so their log times must not mix.
        self.seen = {topic: SeenIds(settings.dedupe_horizon_ms) for topic in ("network", "storage")}
        self.archived = ArchiveIndex(id_seed)
        self.books = Books()
        self.tallies: dict[str, Tally] = {}  # by topic; `books` is their sum
        self.refused = RefusedRecords(settings.dead_letters_per_minute)
        self.ahead = AheadRecords(settings.canary)
        self.checkpoints = JobCheckpoints()
        self.sums = LedgerSums()
        self.due = DueWork()
        self.prices = ShardPrices(book)
        self.snapshots = SnapshotProgress(book)
        self.tracker = BurnTracker()

    @property
    def tracked(self) -> TrackedJobs:
        """What the burn tracker reads of the shard."""
        return TrackedJobs(self.jobs, self.coverage, self.prices.jobs)

    @property
    def contents(self) -> ShardContents:
        """What compaction rewrites, round after round."""
        return ShardContents(self.jobs, self.nodes, self.coverage, self.archived, self.seen, self.prices)

    def publish_samples(self) -> None:
        """Apply pending samples to the jobs; call it before anything but samples reads a job."""
        sampled, alive = self.samples.publish(self.jobs, self.due.open_jobs)
        self._mark_alive(alive)
        self.mark_sampled(sampled)

    def mark_sampled(self, sampled: Iterable[tuple[str, int]]) -> None:
        """Record that samples of these attempts (job_id, attempt) were merged."""
        jobs, open_jobs = self.jobs, self.due.open_jobs
        alive: list[str] = []
        for job_id, number in sampled:
            attempt = jobs[job_id].attempts[number]
            if job_id not in open_jobs or not attempt.has_start:
                self.mark_changed(job_id)
                continue
            # Its open timeline is billed, so no row is derived anew; the next accrual updates its last-seen time.
            alive.append(job_id)
            if not attempt.unsaved.sampled:
                self.snapshots.changes.jobs.add(job_id)  # once: hours without samples look for no usage
        self._mark_alive(alive)

    def _mark_alive(self, job_ids: Collection[str]) -> None:
        """Record samples of open jobs that change no cost."""
        self.due.sampled_jobs.update(job_ids)
        self.snapshots.changes.sampled.update(job_ids)
        self.tracker.mark_alive(job_ids)

    def mark_changed(self, job_id: str, *, lifecycle: bool = False, amounts_ms: int | None = None) -> None:
        """Record a change of a job that affects its cost.

        `lifecycle`: by a lifecycle event. `amounts_ms`: by amounts of such an interval.
        """
        self.due.dirty_jobs.add(job_id)
        self.snapshots.changes.jobs.add(job_id)
        self.tracker.touch(job_id, lifecycle=lifecycle, amounts_ms=amounts_ms)

    def mark_node(self, name: str) -> None:
        """Record a change of a node that affects its cost."""
        self.due.dirty_nodes.add(name)
        self.snapshots.changes.nodes.add(name)
