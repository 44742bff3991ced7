"""The judge of the rules across jobs in a simulated worker, what it sends with, and all that receivers got."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from streams.clock import Clock
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.sender import Sender, SendResult
from streams.worker.ledger_judges.action_requester import ActionOptions, ActionRequester
from streams.worker.ledger_judges.known_alerts import SHARD
from streams.worker.ledger_judges.known_log import KnownLog
from streams.worker.ledger_judges.live_judge import LedgerRules

if TYPE_CHECKING:
    from streams.worker.ledger_judges.budget_judge import LedgerChanges
    from streams.worker.ledger_judges.live_judge import _Duty
    from streams.worker.ledger_judges.reader import Accrued
    from streams.worker.shards.owned_shard import OwnedShard
    from tests.simulator.worker import Worker

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = "https://hooks.example.com/all"
_PROBED_EVERY_MS = 5_000


class Message(NamedTuple):
    """What a receiver got, and the id under which it got it."""

    id: str
    kind: str
    data: dict[str, Any]


@dataclass
class Mailbox:
    """All messages of a run, in the order of their arrival; one that came twice is there twice."""

    got: list[Message] = field(default_factory=list)
    #: The shards of which a look lacks something.
    lacking: Callable[[Accrued], set[int]] = lambda _: set()
    guessed_ms: int = -1  # the last minute of a look that did not wait any longer for one that is late
    early: list[str] = field(default_factory=list)  # looks that should have waited

    @property
    def ids(self) -> set[str]:
        return {message.id for message in self.got}

    def alerts(self, alert_id: str, status: str) -> set[str]:
        """The ids under which a status of an alert was told."""
        return {
            message.id
            for message in self.got
            if message.kind.startswith("alert")
            and message.data["alert_id"] == alert_id
            and message.data["status"] == status
        }


class SlowSender(Sender):
    """Takes some time; what has left arrives, though its sender may be dead before it hears of it."""

    def __init__(self, worker: Worker, mailbox: Mailbox) -> None:
        self._worker = worker
        self._mailbox = mailbox

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> SendResult:
        world = self._worker.process.world
        await asyncio.sleep(world.side.random() ** 3)
        message = orjson.loads(body)
        self._mailbox.got.append(Message(headers["webhook-id"], message["type"], message["data"]))
        world.note(self._worker.process.name, "tells", headers["webhook-id"])
        await asyncio.sleep(world.side.random() ** 3)
        if world.side.random() < self._worker.send_odds():
            world.fault(self._worker.process.name, "answer of a receiver lost")
            return SendResult("retry", 0, "the answer was lost")
        return SendResult("delivered", 200, "")


def notifier_of(worker: Worker, mailbox: Mailbox, clock: Clock) -> Notifier:
    """The real one, with a receiver for all."""
    options = NotifierOptions(webhook_secret=SECRET, default_webhook=HOOK)
    sender = SlowSender(worker, mailbox)
    return Notifier(worker.store, lambda _: (), options, clock, jitter_ratio=lambda: 1.0, sender=sender)


@dataclass
class Probed:
    """Where the log ends, as a probe finds it now and then."""

    worker: Worker
    clock: Clock
    asked_ms: int = -_PROBED_EVERY_MS  # of the world's time
    found: KnownLog | None = None

    def __call__(self) -> KnownLog:
        world, log = self.worker.process.world, self.worker.consumer.log
        if self.found is None or world.now_ms - self.asked_ms >= _PROBED_EVERY_MS:
            self.asked_ms = world.now_ms
            ends = {(part.topic, part.partition): log.end(part, world.now_ms) for part in log.shard_parts}
            self.found = KnownLog(self.worker.group.numbers, self.clock.now_ms() - 1_000, ends=ends)
        return self.found


class Judge(LedgerRules):
    """Says up to which minute it is done: judged, stored, offered, and its actions planned."""

    mailbox: Mailbox

    @property
    def done_ms(self) -> int:
        """0: it has judged nothing."""
        duty = self._duty
        return 0 if duty is None else min(duty.judged_ms or 0, duty.hours.judged_ms or 0)

    @property
    def has_receipts_left(self) -> bool:
        """Whether receipts of what was judged may still have to be issued."""
        return self._settled is not None

    async def _judge_minutes(self, duty: _Duty, owner: OwnedShard, accrued: Accrued) -> LedgerChanges | None:
        is_due = duty.judged_ms is None or accrued.until_ms > duty.judged_ms
        if is_due and (lacking := self.mailbox.lacking(accrued)):
            self.mailbox.guessed_ms = max(self.mailbox.guessed_ms, accrued.until_ms)
            if early := sorted(lacking - set(accrued.late)):
                self.mailbox.early.append(
                    f"budgets were judged up to {accrued.until_ms} without shards {early}"
                )
        return await super()._judge_minutes(duty, owner, accrued)


def judge_of(worker: Worker, mailbox: Mailbox, clock: Clock, is_member: Callable[[], bool]) -> Judge:
    """The real one, as `streams.app` wires it."""
    manager = worker.shard_manager
    actions = ActionOptions("live", HOOK, (SECRET,), grace_ms=0)
    judge = Judge(
        worker.store,
        lambda: manager.owned.get(SHARD),
        is_member,
        manager.reference,
        manager.checkpointer.alert_sink,
        clock,
        lambda writer: ActionRequester(
            worker.store, writer, SlowSender(worker, mailbox), actions, clock, lambda: 1.0
        ),
        known_log=Probed(worker, clock),
        begun_ms=lambda: manager.begun_ms,
    )
    judge.mailbox = mailbox
    return judge
