"""A store with a ledger written by hand, and lives of a worker that judges it.

It writes minutes, hours, jobs and books as shards do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from schemas.events import ControlEvent
from schemas.tables import BOOKS, JOB_HOURS, JOB_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore
from streams.clock import Clock, ManualClock
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.notify.webhooks.sender import Sender
from streams.worker.ledger_judges.action_requester import ActionOptions, ActionRequester
from streams.worker.ledger_judges.budget_judge import LedgerChanges
from streams.worker.ledger_judges.known_log import KnownLog
from streams.worker.ledger_judges.live_judge import LedgerRules
from streams.worker.ledger_judges.rule_rows import RuleRowWriter
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.versions import VersionClock
from tests.notify.scripted_sender import Office, ScriptedSender
from tests.sinks.rows import rows
from tests.sinks.stores import embedded, empty
from tests.worker.fakes import CountingShard, State, as_shard

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
T0 = 20_454 * 86_400_000 + 10 * HOUR_MS  # 1 January 2026, 10:00 UTC
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


@contextmanager
def opened(path: Path) -> Iterator[ClickHouseStore]:
    with embedded(path) as store:
        empty(store.target)
        yield store


@dataclass
class Ledger:
    """What shards have stored; the version rises with each call."""

    store: ClickHouseStore
    version: int = 0
    waiting: dict[str, list[dict[str, Any]]] | None = None
    spent: dict[tuple[str, int], int] = field(default_factory=dict)  # job, minute -> cents

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store what is said inside at the end, in one insert of each table: an insert takes 10 ms of a core."""
        if self.waiting is not None:
            yield
            return
        waiting = self.waiting = {}
        try:
            yield
        finally:
            self.waiting = None
        for table, found in waiting.items():
            self._insert(table, found)

    def job(self, job_id: str, *, shard: int = 0, started_ms: int = T0, **fields: Any) -> None:
        """Its row: running, unless the fields say otherwise."""
        row = {"job_id": job_id, "state": "running", "started": at(started_ms), "shard": shard, **fields}
        self._put(JOBS, row)

    def minutes(
        self, job_id: str, first_ms: int, cents: list[int], *, shard: int = 0, sku: str = "x"
    ) -> None:
        """Whole minutes from `first_ms` on, and the hours that they make."""
        found = []
        for number, each in enumerate(cents):
            minute_ms = first_ms + number * MINUTE_MS
            self.spent[job_id, minute_ms] = each
            usd = Decimal(each) / 100
            row = {"job_id": job_id, "minute": at(minute_ms), "cost_usd": usd, "quantity": 60_000_000}
            found.append({**row, "shard": shard, "sku": sku})
        self._put(JOB_MINUTES, *found)
        hours = {minute_ms // HOUR_MS * HOUR_MS for job, minute_ms in self.spent if job == job_id}
        stored = []
        for hour_ms in hours:
            inside = [
                (minute_ms, spent)
                for (job, minute_ms), spent in self.spent.items()
                if job == job_id and hour_ms <= minute_ms < hour_ms + HOUR_MS
            ]
            usd = Decimal(sum(spent for _, spent in inside)) / 100
            begins = sorted(minute_ms - hour_ms for minute_ms, _ in inside)
            measures = {
                "gpu_milli_ms": 60_000_000 * len(inside),
                "wall_clock_ms": MINUTE_MS * len(inside),
                "wall_clock_from_ms": begins,
                "wall_clock_until_ms": [begin + MINUTE_MS for begin in begins],
            }
            row = {"job_id": job_id, "hour": at(hour_ms), "gpu_cost_usd": usd, "shard": shard, **measures}
            stored.append(row | ({} if sku else {"unpriced_gpu_milli_ms": 1}))
        self._put(JOB_HOURS, *stored)

    def books(self, *accrued_ms: int, read_to_ms: int | None = None, next_offset: int = 0) -> None:
        """Up to when each shard has stored what goes on, and up to where it has read `jobs`."""
        put = []
        for shard, accrued in enumerate(accrued_ms):
            read_to = at(accrued if read_to_ms is None else read_to_ms)
            place = {"topic": "jobs", "partition": shard, "shard": shard, "next_offset": next_offset}
            put.append({**place, "time": at(accrued), "read_to": read_to})
        self._put(BOOKS, *put)

    def _put(self, table: str, *put: dict[str, Any]) -> None:
        """Rows in one insert, all of one version."""
        self.version += 1
        found = [{"attempt": 1, **row, "version": self.version} for row in put]
        if self.waiting is None:
            self._insert(table, found)
        else:
            self.waiting.setdefault(table, []).extend(found)

    def _insert(self, table: str, found: list[dict[str, Any]]) -> None:
        if found:
            self.store.insert(table, rows(table, *found), f"lab:{table}:{found[-1]['version']}")


class Life:
    """One life of a worker that owns shard 0."""

    def __init__(
        self,
        store: ClickHouseStore,
        clock: ManualClock,
        *controls: tuple[str, str, dict[str, Any]],
        generation: int = 1,
        actions: ActionOptions | None = None,
        sender: Sender | None = None,
        signed_by: Clock | None = None,
        known_log: Callable[[], KnownLog] | None = None,
        begun_ms: int | None = None,
        unstored_ms: Callable[[], int | None] = lambda: None,
        is_confirmed: Callable[[], bool] = lambda: True,
    ) -> None:
        self.clock = clock
        self._is_confirmed = is_confirmed
        self.signed_by = clock if signed_by is None else signed_by
        self.member = True
        self.office = Office(
            store=store, clock=clock, options={"default_webhook": "https://oncall.example.com/p"}
        )
        versions = VersionClock(0, generation)
        shard = as_shard(CountingShard(0, PriceBook.empty(), State()))
        self.owner: OwnedShard | None = OwnedShard(0, shard, versions, Takeover(0, versions.next()))
        self.reference = ReferenceLog()
        self.say(*controls)
        self.rules = LedgerRules(
            store,
            lambda: self.owner,
            lambda: self.member,
            self.reference,
            self.office.notifier,
            clock,
            None if actions is None else self._requester(store, actions, sender or ScriptedSender()),
            known_log=known_log,
            begun_ms=lambda: begun_ms,
            unstored_ms=unstored_ms,
        )
        self.office.notifier.resume([0])

    def _requester(
        self, store: ClickHouseStore, options: ActionOptions, sender: Sender
    ) -> Callable[[RuleRowWriter], ActionRequester]:
        return lambda writer: ActionRequester(
            store, writer, sender, options, self.signed_by, lambda: 1.0, self._is_confirmed
        )

    def say(self, *controls: tuple[str, str, dict[str, Any]], log_ms: int = 0, time_ms: int = 1) -> None:
        """Read controls (kind, name, fields)."""
        standing = dict(self.reference.controls)
        news = []
        for kind, name, fields in controls:
            event = ControlEvent(source="t", id=name, time_ms=time_ms, kind=kind, name=name, value=fields)
            key = f"{kind}/{name}".encode()
            standing[key] = event
            news.append((log_ms, key, event))
        self.reference.extend([], news, self.reference.book, standing)

    async def step(self) -> LedgerChanges | None:
        found = await self.rules.step()
        await self.rules.issue_receipts()
        await self.office.work()
        if self.rules.requester is not None and self.owner is not None:
            await self.rules.requester.send_due(self.owner)
        return found

    @property
    def told(self) -> list[tuple[str, str, str, float]]:
        """(rule, subject, status, share) of each message."""
        data = [sent.body["data"] for sent in self.office.sender.sent]
        return [(each["rule"], each["subject"]["name"], each["status"], each["ratio"]) for each in data]
