"""Drives a shard without a worker: fold batches, take prices, make checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.checkpoint import Checkpoint
from streams.engine.shard.shard import Shard

#: Fetches archived jobs: {job id: version of its state} -> {job id: blob}.
FetchArchived = Callable[[Mapping[str, int]], Mapping[str, bytes]]


class LogHoleError(RuntimeError):
    """Records before a batch are missing; read again at the offset named."""

    def __init__(self, batch: LogBatch, refetch_at: int) -> None:
        super().__init__(
            f"{batch.topic}[{batch.partition}]: records {refetch_at} to {batch.start - 1} are missing, fetch them again"
        )
        self.refetch_at = refetch_at


def step(
    shard: Shard,
    batches: Iterable[LogBatch],
    book: PriceBook,
    fetch_archived: FetchArchived,
    as_of_ms: int,
    versions: Iterable[int],
    *,
    open_attempts: bool = True,
) -> list[Checkpoint]:
    """Fold batches, take newer prices, and give out what must be stored, in order.

    Raises LogHoleError when records before a batch are missing; nothing of that batch is folded then.
    """
    for batch in batches:
        missing = shard.missing(batch)
        shard.adopt(fetch_archived(missing))
        if missing:
            shard.forget_archived(shard.absent(missing))  # what the archive lacks is a new job
        refetch_at = shard.fold(batch)
        if refetch_at is not None:
            raise LogHoleError(batch, refetch_at)
    shard.set_prices(book)
    checkpoints: list[Checkpoint] = []
    for version in versions:
        checkpoints.append(shard.checkpoint(as_of_ms, version, open_attempts=open_attempts))
        if not checkpoints[-1].more:
            break
    return checkpoints
