"""Audits a running worker's own shards at an interval and keeps the last result.

SQL runs in a thread, memory is read in small pieces. The cost of one audit is bounded: JOBS_AT_ONCE jobs x 30
minutes, the rows written since the last audit (a million at most), and, every tenth time, the snapshots of
one shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from sinks.clickhouse import QueryResult
from sinks.errors import SinkError
from streams.clock import Clock
from streams.engine.rules.formatting import one_line
from streams.engine.shard.shard import Shard
from streams.selfcheck.audit import count_checks, ledger_checks, memory, snapshot_checks, tables
from streams.selfcheck.audit.facts import (
    CommittedPosition,
    Costs,
    KnownMinutes,
    MinuteSum,
    SnapshotHead,
    Twins,
)
from streams.selfcheck.audit.memory import ShardSource
from streams.selfcheck.audit.verdict import COSTS, WRITERS, AuditFinding, Verdict
from streams.threads import Threads
from streams.worker.shards.owned_shard import OwnedShard

logger = logging.getLogger(__name__)

EVERY_S: Final = 30.0
#: Jobs compared in one audit, over all shards; the next audit takes the next ones.
JOBS_AT_ONCE: Final = 200
#: The snapshots of a shard, megabytes, are read in one of this many audits.
CHAIN_EVERY: Final = 10
_AGAIN_S: Final = 5.0
_LANDING_S: Final = 0.05
_LANDINGS: Final = 100


class Storing(Protocol):
    """The part of the checkpointer that the audit uses."""

    def carries(self, owned: OwnedShard) -> bool:
        """Whether anything of the shard is in flight."""
        ...


class AuditedWorker(ShardSource, Protocol):
    """A worker's shards and its checkpointer."""

    @property
    def checkpointer(self) -> Storing:
        """The checkpointer."""
        ...


#: (topic without prefix, partition) -> the end of its log; None: unknown.
LogEnd = Callable[[str, int], int | None]
#: Returns the committed offsets of these partitions; blocks.
Committed = Callable[[Sequence[tuple[str, int]]], Mapping[tuple[str, int], int]]


class LiveAudit:
    """Call `run_twice`, or `run` beside the meter; `last` is the last result."""

    def __init__(
        self,
        shard_manager: AuditedWorker,
        ask: tables.Ask,
        clock: Clock,
        log_end: LogEnd = lambda _topic, _number: None,
        committed: Committed = lambda _places: {},
        is_member: Callable[[], bool] = lambda: True,
        *,
        again_s: float = _AGAIN_S,
    ) -> None:
        self._shard_manager = shard_manager
        self._ask = ask
        self._clock = clock
        self._log_end = log_end
        self._committed = committed
        self._is_member = is_member
        self._again_s = again_s
        self._threads = Threads("audit")
        self._since: WeakKeyDictionary[OwnedShard, int] = (
            WeakKeyDictionary()
        )  # version up to which rows were correct
        self._jobs_seen: WeakKeyDictionary[OwnedShard, int] = WeakKeyDictionary()
        self._turn = 0
        self._heads: Sequence[SnapshotHead] = ()  # of the shard checked last
        self.last: Verdict | None = None

    async def run(self) -> None:
        """Audit every 30 s until cancelled; a store that does not answer is no finding."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.run_twice()
            except SinkError as fault:
                logger.warning(
                    "audit could not read the store",
                    extra={
                        "reason": " ".join(str(fault).split()),
                        "runbook": "docs/trouble.md#store-unavailable",
                    },
                )
            except Exception:
                logger.exception(
                    "audit failed, retrying", extra={"runbook": "docs/trouble.md#internal-fault"}
                )

    async def run_twice(self) -> Verdict | None:
        """Audit, and repeat once if anything is wrong, as tables are not read at one instant.

        None: the group has not answered for a session, so others may own our shards, and nothing can be compared.
        """
        verdict = await self._run_once() if self._is_member() else None
        if verdict is not None and not verdict.ok:
            await asyncio.sleep(self._again_s)
            verdict = await self._run_once() if self._is_member() else None
        if verdict is None or not self._is_member():
            return None
        before = set() if self.last is None else {fault.detail for fault in self.last.faults}
        for fault in verdict.faults:
            if fault.detail not in before:
                logger.error(
                    "books do not balance",
                    extra={
                        "check": fault.check,
                        "reason": one_line(fault.detail),
                        "runbook": "docs/audit.md#audit",
                    },
                )
        self.last = verdict
        return verdict

    async def _run_once(self) -> Verdict:
        shard_manager = self._shard_manager
        owned = [each for _, each in sorted(shard_manager.owned.items())]
        books = memory.books(owned)
        findings = [*count_checks.books(books), *count_checks.intake(memory.flows(shard_manager))]
        numbers = [each.number for each in owned]
        if numbers:
            findings += await self._threads.run(self._counted, numbers)
            findings += await self._ledger(owned)
            findings += await self._minutes(owned)
            findings += await self._snapshots(owned)
        return Verdict(self._clock.now_ms(), tuple(findings), tuple(books))

    def _counted(self, numbers: Sequence[int]) -> list[AuditFinding]:
        """Check, in a thread, the stored record accounting and the dead letters that it counts."""
        stored = [fault for fault in count_checks.books(tables.books(self._ask, numbers)) if not fault.ok]
        return [
            *stored,
            *count_checks.dead_letters(tables.dead_letters(self._ask, numbers)),
            # One worker checks all nodes together, and the parts of the tables.
            *(ledger_checks.nodes(*tables.nodes(self._ask)) if 0 in numbers else ()),
            *(ledger_checks.parts(tables.parts(self._ask)) if 0 in numbers else ()),
        ]

    async def _ledger(self, owned: Sequence[OwnedShard]) -> list[AuditFinding]:
        """Check rows written since the last audit; wrong rows are checked again until they are corrected."""
        # Rows in flight are left to the next audit.
        now = {
            each: each.shard.snapshots.version
            for each in owned
            if not self._shard_manager.checkpointer.carries(each)
        }
        since = {each: self._since.setdefault(each, each.takeover.first) for each in now}
        moved = [each for each, version in now.items() if version > since[each]]
        if not moved:
            return [*ledger_checks.costs(()), *ledger_checks.writers(())]
        numbers, first = [each.number for each in moved], min(since[each] for each in moved)

        def ask() -> tuple[list[Costs], list[Twins]]:
            found = tables.costs(self._ask, numbers, first, current=False)
            if any(each.wrong or each.unknown for each in found):
                # A price corrected meanwhile has another divisor than the rows, which have been restated by now.
                found = tables.costs(self._ask, numbers, first)
            return found, tables.twins(self._ask, numbers, first)

        costs, twins = await self._threads.run(ask)
        findings = [*ledger_checks.costs(costs), *ledger_checks.writers(twins)]
        if all(finding.ok for finding in findings if finding.check in (COSTS, WRITERS)):
            self._since.update({each: now[each] for each in moved})
        return findings

    async def _minutes(self, owned: Sequence[OwnedShard]) -> list[AuditFinding]:
        """Compare some jobs' minutes in the windows with the ledger, in rotation."""
        looks: list[memory.Look] = []
        for each in owned:
            shard = each.shard
            if not await self._landed(each):
                continue
            look = memory.minutes(shard, self._next_jobs(each, shard, max(JOBS_AT_ONCE // len(owned), 1)))
            if look.jobs:
                looks.append(look)
        known: dict[tuple[str, int], KnownMinutes] = {}
        stored: dict[tuple[str, int], MinuteSum] = {}
        if looks:
            # One query for all: rows written since a shard was read have a newer version.
            jobs = [job_id for look in looks for job_id in look.jobs]
            span = min(look.since for look in looks), max(look.until for look in looks)
            stored = await self._threads.run(tables.minutes, self._ask, jobs, *span)
            for look in looks:
                known.update(look.known)
        return ledger_checks.windows(known, stored)

    async def _landed(self, owned: OwnedShard) -> bool:
        """Whether nothing of the shard is in flight."""
        for _ in range(_LANDINGS):
            if self._shard_manager.owned.get(owned.number) is not owned or owned.repricing:
                return False
            if not self._shard_manager.checkpointer.carries(owned):
                return True
            await asyncio.sleep(_LANDING_S)
        return False

    def _next_jobs(self, owned: OwnedShard, shard: Shard, count: int) -> Sequence[str]:
        """The next jobs in rotation."""
        jobs = shard.tracker.job_ids
        if not jobs:
            return ()
        begin = self._jobs_seen.get(owned, 0) % len(jobs)
        self._jobs_seen[owned] = begin + count
        return [*jobs[begin : begin + count], *jobs[: max(begin + count - len(jobs), 0)]][: len(jobs)]

    async def _snapshots(self, owned: Sequence[OwnedShard]) -> list[AuditFinding]:
        """Check the stored state of one shard in rotation, and the offsets of all shards' snapshots."""
        await self._chain(owned)
        # Read committed offsets first: the snapshots' offsets only grow.
        asked = [(topic, number) for topic, number, _ in _awaited(owned)]
        committed = await self._threads.run(self._committed, asked)
        places = [
            CommittedPosition(
                f"{topic}/{number}", offset, self._log_end(topic, number), committed.get((topic, number))
            )
            for topic, number, offset in _awaited(owned)
        ]
        return snapshot_checks.snapshots(self._heads, places)

    async def _chain(self, owned: Sequence[OwnedShard]) -> None:
        """Read the snapshots of the next shard; repeat a shard whose chain is incomplete until it is complete or revoked."""
        wrong = not all(finding.ok for finding in snapshot_checks.snapshots(self._heads, ()))
        numbers = {head.shard for head in self._heads} if wrong else set()
        mine = next((each for each in owned if each.number in numbers), None)
        if mine is None:
            self._turn += 1
            if self._turn % CHAIN_EVERY != 1 and not wrong:
                return
            mine = owned[self._turn // CHAIN_EVERY % len(owned)]
        # Only stored versions: chunks of a newer one may be in flight.
        newest = mine.shard.snapshots.parent if await self._landed(mine) else 0
        heads = await self._threads.run(tables.snapshots, self._ask, [mine.number])
        self._heads = [head for head in heads if head.whole or head.version <= newest]


def _awaited(owned: Sequence[OwnedShard]) -> list[tuple[str, int, int]]:
    """(topic, partition, next offset) of the newest snapshots."""
    return [
        (topic, each.number, offset)
        for each in owned
        if not each.gone
        for topic, offset in sorted(each.shard.snapshots.next.items())
    ]


class Asked(Protocol):
    """A store that runs read-only statements."""

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Columns and their values."""
        ...


def asking(store: Asked) -> tables.Ask:
    """A function that runs a statement and returns its rows as objects."""

    def ask(sql: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
        return store.ask(sql, parameters).records()

    return ask
