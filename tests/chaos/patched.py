"""A worker with a guard taken out or a fault put in: `python -m tests.chaos.patched NAME[,NAME...] worker`.

Taken out: `guard_off`, `start_committed`, `step_over_holes`. Put in: `lose_batches`, `lose_commits`,
`stale_snapshots`, `audit_dies`, `lose_messages`. `stock_assignor`: assignments are made of whatever metadata
Kafka answers, as Faust and aiokafka do; `stock_leader`: members ask again all the same. Neither:
`own_present`, which moves a worker to another time. None of this is a switch of the product.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from aiokafka import TopicPartition
from faust.assignor.partition_assignor import PartitionAssignor

from sinks.snapshots import Chain, Snapshots
from streams.config.settings import KafkaSettings
from streams.engine.alerts.alert import Alert
from streams.engine.batch import LogBatch
from streams.engine.shard.sequencer import Sequencer
from streams.engine.shard.shard import Shard
from streams.notify.notifier import Notifier
from streams.selfcheck.audit.live import LiveAudit
from streams.transport import admin
from streams.transport.admin import TopicState
from streams.transport.asking_again import AskingAgain
from streams.transport.assignor import MeterAssignor
from streams.transport.consumer import Consumer
from streams.transport.faust_types import TP
from streams.transport.momentary import Momentary
from streams.transport.whole_metadata import WholeMetadata
from streams.worker.ledger_judges.known_alerts import SHARD
from streams.worker.log_time import LogTime
from streams.worker.shard_manager import ShardManager
from tests.chaos.present import BEHIND, PAID_UNTIL, PAID_UNTIL_MS

_LOST_RATIO: Final = 0.03
_COMMITS_LOST_RATIO: Final = 0.5
_STALE_RATIO: Final = 0.5
#: What a worker says of topics that keep given append times.
_GIVEN_TIMES: Final = "message.timestamp.type=CreateTime, expected LogAppendTime"

_offer, _fold, _take, _load, _heads = (
    Sequencer.offer,
    Shard.fold,
    ShardManager.ingest_batches,
    Snapshots.load,
    Snapshots._heads,
)
_commit_next = Consumer.commit_next
_stale: set[int] = set()  # shards whose newest snapshot is not seen


def guard_off() -> None:
    """Fold whatever comes, wherever it begins."""

    def offer(self: Sequencer, batch: LogBatch, latest_ms: int = 2**62) -> int | None:
        self._end[batch.topic] = batch.start
        return _offer(self, batch, latest_ms)

    def fold(self: Shard, batch: LogBatch) -> int | None:
        self.position.next[batch.topic] = batch.start
        return _fold(self, batch)

    _set(Sequencer, "offer", offer)
    _set(Shard, "fold", fold)


def step_over_holes() -> None:
    """Take records that did not come for a legal gap."""

    def offer(self: Sequencer, batch: LogBatch, latest_ms: int = 2**62) -> int | None:
        self._end[batch.topic] = max(self.next_offset(batch.topic), batch.start)
        return _offer(self, batch, latest_ms)

    def fold(self: Shard, batch: LogBatch) -> int | None:
        self.position.next[batch.topic] = max(self.position.next.get(batch.topic, 0), batch.start)
        return _fold(self, batch)

    _set(Sequencer, "offer", offer)
    _set(Shard, "fold", fold)


def start_committed() -> None:
    """Read from where the group has committed, as a stock consumer does."""

    async def seek_to_committed(self: Consumer) -> Mapping[TP, int]:
        start = dict(self._thread.fetch_options.start_offsets(self.assignment()))
        for tp in start:
            aiokafka = self._thread._ensure_consumer()
            committed = await self._thread.call_thread(aiokafka.committed, TopicPartition(*tp))
            start[tp] = start[tp] if committed is None else int(committed)
        if start:
            await self.seek_wait(start)
        return start

    _set(Consumer, "seek_to_committed", seek_to_committed)


def lose_batches() -> None:
    """Some fetched batches never reach a shard."""

    async def take(self: ShardManager, *batches: LogBatch) -> None:
        came = [batch for batch in batches if random.random() >= _LOST_RATIO]
        if came:
            await _take(self, *came)

    _set(ShardManager, "ingest_batches", take)


def lose_commits() -> None:
    """Some commits to Kafka are not made, as when its answer is awaited in vain."""

    async def commit_next(self: Consumer, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
        lost = random.random() < _COMMITS_LOST_RATIO
        return False if lost else await _commit_next(self, next_offsets, timeout_s)

    _set(Consumer, "commit_next", commit_next)


def stale_snapshots() -> None:
    """The newest snapshot is not seen at a restore, as on a replica that lags behind."""

    def load(self: Snapshots, shard: int) -> Chain:
        if random.random() < _STALE_RATIO:
            _stale.add(shard)
        try:
            return _load(self, shard)
        finally:
            _stale.discard(shard)

    def heads(self: Snapshots, shard: int) -> Any:
        found = _heads(self, shard)
        if shard in _stale and len(found) > 1:
            del found[max(found)]
        return found

    _set(Snapshots, "load", load)
    _set(Snapshots, "_heads", heads)


def lose_messages() -> None:
    """What shard 0 tells, all alerts across jobs and receipts, is stored and never sent."""
    offer_all, resume_all = Notifier.offer, Notifier.resume

    def offer(self: Notifier, alerts: Iterable[Alert], shard: int) -> None:
        if shard != SHARD:
            offer_all(self, alerts, shard)

    def resume(self: Notifier, shards: Iterable[int]) -> None:
        resume_all(self, [shard for shard in shards if shard != SHARD])

    _set(Notifier, "offer", offer)
    _set(Notifier, "resume", resume)


def audit_dies() -> None:
    """A task that nobody's work waits for ends with a fault, once there is something to audit."""

    async def run(self: LiveAudit) -> None:
        while not self._shard_manager.owned:  # noqa: ASYNC110 - a shard manager announces nothing
            await asyncio.sleep(0.05)
        raise LookupError("no such row")

    _set(LiveAudit, "run", run)


def stock_assignor() -> None:
    """Assign from whatever the last metadata has, and never ask again, as before shards were looked after."""

    def nothing(self: AskingAgain) -> None:
        return None

    stock_leader()
    _set(AskingAgain, "assigned", nothing)
    _set(AskingAgain, "ask", nothing)


def stock_leader() -> None:
    """Assign from whatever the last metadata has."""

    def watch(self: WholeMetadata, client: Any) -> None:
        self._client = client

    async def wait(self: WholeMetadata, at_most_s: float) -> None:
        return None

    def replace(self: Momentary, client: Any) -> None:
        return None

    def assign(self: MeterAssignor, cluster: Any, member_metadata: Any) -> Any:
        return PartitionAssignor._perform_assignment(self, cluster, member_metadata)

    _set(WholeMetadata, "watch", watch)
    _set(WholeMetadata, "wait", wait)
    _set(Momentary, "watch", replace)
    _set(MeterAssignor, "_perform_assignment", assign)


def own_present() -> None:
    """Take it to be earlier than it is, and records to be appended when their producer says; pay up to an instant only."""
    behind_ns = int(os.environ.get(BEHIND, "0")) * 1_000_000
    paid_until_ms = int(os.environ.get(PAID_UNTIL, PAID_UNTIL_MS))
    time_ns, faults, accrue_until_ms = time.time_ns, admin.faults, LogTime.accrue_until_ms

    def faults_but_one(kafka: KafkaSettings, states: Mapping[str, TopicState]) -> list[str]:
        return [each for each in faults(kafka, states) if not each.endswith(_GIVEN_TIMES)]

    def accrue_until(self: LogTime) -> int:
        return min(accrue_until_ms(self), paid_until_ms)

    time.time_ns = lambda: time_ns() - behind_ns
    _set(admin, "faults", faults_but_one)
    _set(LogTime, "accrue_until_ms", accrue_until)


PATCHES: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        guard_off,
        step_over_holes,
        start_committed,
        lose_batches,
        lose_commits,
        stale_snapshots,
        audit_dies,
        lose_messages,
        stock_assignor,
        stock_leader,
        own_present,
    )
}


def _set(owner: type | ModuleType, name: str, function: Callable[..., Any]) -> None:
    assert hasattr(owner, name), f"{owner.__name__}.{name} is gone: the patch would change nothing"
    was, now = (_shape(each) for each in (getattr(owner, name), function))
    assert was == now, (
        f"{owner.__name__}.{name} takes {was}, the patch {now}: a worker would end, not lose anything"
    )
    setattr(owner, name, function)


def _shape(function: Callable[..., Any]) -> list[tuple[str, str]]:
    return [(each.name, each.kind.name) for each in inspect.signature(function).parameters.values()]


def main(words: Sequence[str]) -> None:
    """Patch, then be the command."""
    for name in filter(None, words[0].split(",")):
        PATCHES[name]()
    from streams.cli.main import main as command

    command(words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
