"""A post office for tests of the notifier: alerts, a sender that answers from a script, a clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson
import pyarrow as pa

from schemas.tables import ALERTS, DELIVERIES
from sinks.rows import Condition, Rows
from streams.clock import ManualClock
from streams.engine.alerts.alert import Address, Alert, alert_id
from streams.engine.alerts.rows import alerts_table
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.sender import Sender, SendResult
from tests.memory_store import MemoryStore

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW_MS = 1_800_000_000_000
HOOK = "https://hooks.example.com/services/hunter2?token=hunter2"
SLACK = "https://hooks.slack.com/services/T000/B000/hunter2"
OK = SendResult("delivered", 200, "")
BUSY = SendResult("retry", 503, "answered 503")
SHARD = 3
T = TypeVar("T")


def an_alert(name: str = "job-1", status: str = "firing", changed_ms: int = NOW_MS, **other: Any) -> Alert:
    values: dict[str, Any] = {
        "alert_id": alert_id("burn_fast", "job", name, NOW_MS),
        "rule": "burn_fast",
        "severity": "page",
        "status": status,
        "subject_kind": "job",
        "subject_name": name,
        "owner": "ada",
        "team": "vision",
        "project": "p",
        "started_ms": NOW_MS,
        "resolved_ms": None if status == "firing" else changed_ms,
        "ratio": 8.25,
        "usd_nano_per_hour": 786_560_000_001,
        "expected_nano_per_hour": 98_320_000_000,
        "cost_nano": 65_546_666_667,
        "window_ms": 900_000,
        "summary": f"{name} burns $786.56/h",
        "evidence_sql": "SELECT 1",
        "held_ms": changed_ms,
        "changed_ms": changed_ms,
        "firings": 1,
        "silenced": False,
    }
    return Alert(**(values | other))


def resolved(name: str = "job-1", after_ms: int = 10_000, **other: Any) -> Alert:
    return an_alert(name, "resolved", NOW_MS + after_ms, **other)


class Sent(NamedTuple):
    url: str
    body: Any  # the JSON
    headers: Mapping[str, str]


class Watched(MemoryStore):
    """Calls `before_select` with the table and the columns of every look; it may raise."""

    def __init__(self, before_select: Callable[[str, Sequence[str] | None], object]) -> None:
        super().__init__()
        self._before_select = before_select

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        self._before_select(table, columns)
        return super().select(table, where, columns, limit=limit)


class ScriptedSender(Sender):
    """Answers each URL from its script, the last answer again and again; without a script all is well."""

    def __init__(self, script: Mapping[str, Sequence[SendResult]] | None = None) -> None:
        self._script = {url: list(answers) for url, answers in (script or {}).items()}
        self.sent: list[Sent] = []
        self.hanging: dict[str, asyncio.Event] = {}
        self.begun = asyncio.Event()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> SendResult:
        self.sent.append(Sent(url, orjson.loads(body), headers))
        self.begun.set()
        if url in self.hanging:
            await self.hanging[url].wait()
        answers = self._script.get(url, [OK])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    @property
    def told(self) -> list[tuple[str, str]]:
        """(subject, status) of what was sent, in order."""
        return [(sent.body["data"]["subject"]["name"], sent.body["data"]["status"]) for sent in self.sent]


class Office:
    """One life of a notifier; another one with the same store is the next life."""

    def __init__(
        self,
        script: Mapping[str, Sequence[SendResult]] | None = None,
        *,
        store: Rows | None = None,
        addresses: Sequence[Address] = (Address("webhook", HOOK),),
        clock: ManualClock | None = None,
        options: Mapping[str, Any] | None = None,
        jitter_ratio: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.store = MemoryStore() if store is None else store
        self.sender = ScriptedSender(script)
        self.clock = clock or ManualClock(NOW_MS)
        self.addresses = list(addresses)
        usual: dict[str, Any] = {
            "webhook_secret": SECRET,
            "group_wait_ms": 0,
            "group_interval_ms": 0,
            "starts_per_s": None,
        }
        self.options = NotifierOptions(**(usual | dict(options or {})))
        self.notifier = Notifier(
            self.store,
            lambda owner: self.addresses if owner == "ada" else [],
            self.options,
            self.clock,
            jitter_ratio=jitter_ratio,
            sender=self.sender,
        )
        self._versions = 0
        self.most_waiting = 0

    def keep(self, *alerts: Alert, shard: int = SHARD) -> None:
        """Store alerts without offering them."""
        for alert in alerts:
            self._versions += 1
            token = f"{id(self)}:{self._versions}"
            version = alert.changed_ms + self._versions
            self.store.insert(ALERTS, alerts_table([alert], shard, version), token)

    async def offer(self, *alerts: Alert, shard: int = SHARD) -> None:
        """Store alerts, offer them, and let what is due be attempted."""
        self.keep(*alerts, shard=shard)
        self.notifier.offer(alerts, shard)
        await self.work()

    async def work(self, by_ms: int = 0) -> None:
        """Move the clock on, then do whatever is due then."""
        self.clock.advance(by_ms)
        while True:
            await self.notifier.run_once()
            self.most_waiting = max(self.most_waiting, self.notifier.waiting)
            if not self.notifier.in_flight and not self.notifier._intake.has_offered:
                break
            await attempts_ended(self.notifier)
        await attempts_ended(self.notifier)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of deliveries in the order of their attempts."""
        found = self.store.select(DELIVERIES).to_pylist()
        found.sort(key=lambda row: (row["time"], row["receiver"], row["status"], row["attempt"]))
        return [tuple(row[name] for name in columns) for row in found]


def run(test: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(test)


async def attempts_ended(notifier: Notifier) -> None:
    """Wait until the attempts in flight have ended and their rows are stored."""
    await asyncio.gather(*notifier._in_flight)
    await notifier._ledger.flush()
