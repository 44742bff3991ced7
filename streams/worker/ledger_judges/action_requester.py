"""Requests the actions of budgets from their receivers: each request is stored before it is sent, and every outcome after.

Nothing is sent in a dry run.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from schemas.budget_tables import ACTIONS
from sinks.errors import SinkError
from sinks.port import Store
from streams.address_keys import AddressKeys, SealedAddressError, cannot_open, is_sealed
from streams.clock import Clock
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.budget_actions import (
    ACKNOWLEDGED,
    EXPIRED,
    FINAL,
    REFUSED,
    REQUESTED,
    ActionMode,
    DueAction,
    States,
    due_action_of,
    due_keys,
    is_over,
    next_due_action,
)
from streams.notify.retry_schedule import delay_ms, retry_after_ms
from streams.notify.webhooks.guard import shown
from streams.notify.webhooks.sender import Sender, SendResult
from streams.notify.webhooks.signing import Signer
from streams.threads import Threads
from streams.worker.ledger_judges.action_rows import (
    ActionRow,
    action_body,
    action_table,
    open_requests,
    row_of,
    stored_actions,
)
from streams.worker.ledger_judges.budget_judge import BudgetState
from streams.worker.ledger_judges.reader import LedgerReader
from streams.worker.ledger_judges.rule_rows import RuleRows, RuleRowWriter, token
from streams.worker.shards.owned_shard import OwnedShard

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 16
#: Requests of former owners that are older are not looked for.
_LEFT_MS: Final = 7 * 86_400_000
_STATES_OF: Final = {"delivered": ACKNOWLEDGED, "failed": REFUSED, "refused": REFUSED}


@dataclass(frozen=True)
class ActionOptions:
    """Whether requests are sent, where to, and how often they are tried."""

    mode: ActionMode = "dry_run"
    webhook: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    grace_ms: int = 300_000
    max_attempts: int = 8
    address_keys: AddressKeys | None = None


@dataclass(eq=False)
class _Request:
    """A request under way; the time of its next attempt is monotonic."""

    action: DueAction
    row: ActionRow
    due_ms: int
    attempt: int = 0


class ActionRequester:
    """`plan` after each judgement, `send_due` often; both on the event loop."""

    def __init__(
        self,
        store: Store,
        writer: RuleRowWriter,
        sender: Sender,
        options: ActionOptions,
        clock: Clock,
        jitter_ratio: Callable[[], float] = random.random,
        is_confirmed: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_confirmed`: whether a second person has confirmed that requests are sent, where that is asked for."""
        self._is_confirmed = is_confirmed
        self._has_said_why = False
        self._store = store
        self._writer = writer
        self._sender = sender
        self._options = options
        self._clock = clock
        self._jitter_ratio = jitter_ratio
        self._signer = Signer(*options.secrets) if options.secrets else None
        self._threads = Threads("actions")
        self._known: dict[str, list[ActionRow]] = {}
        self._waiting: dict[str, _Request] = {}
        self._left: list[ActionRow] | None = None  # of former owners, without an outcome; None: not read yet

    def forget(self) -> None:
        """Drop everything: another worker owns shard 0, and reads the table."""
        self._known.clear()
        self._waiting.clear()
        self._left = None

    @property
    def _mode(self) -> ActionMode:
        """The setting, or a dry run as long as `live` is not confirmed."""
        if self._options.mode != "live" or self._is_confirmed():
            return self._options.mode
        if not self._has_said_why:
            self._has_said_why = True
            logger.warning(
                "no action is sent: actions.mode is live and waits for a second person",
                extra={"runbook": "docs/company.md#two-persons"},
            )
        return "dry_run"

    @property
    def waiting(self) -> int:
        """The requests without an outcome."""
        return len(self._waiting)

    async def plan(
        self, owner: OwnedShard, reader: LedgerReader, states: Sequence[BudgetState], controls: Controls
    ) -> None:
        """Store what the steps of used up budgets ask for now.

        Raises:
            SinkError: The store could not be read or written; the next call plans the same.
        """
        if self._left is None:
            since_ms = self._clock.now_ms() - _LEFT_MS
            self._left = await self._threads.run(open_requests, self._store, since_ms)
        rows: list[tuple[DueAction, ActionRow]] = []
        wanted: set[str] = set()
        mode = self._mode
        for state in states:
            if not is_over(state.subject.budget, state.ratio):
                continue
            jobs = await self._threads.run(reader.live_jobs, state.subject.wanted)
            keys = {key for job in jobs for key in due_keys(state.subject, state.period, job.run.job_id)}
            wanted |= keys
            await self._read(keys - self._known.keys())
            for job in jobs:
                action = next_due_action(
                    state.subject,
                    state.period,
                    state.ratio,
                    job,
                    state.at_ms,
                    mode,
                    self._options.grace_ms,
                    controls.overrides,
                    self._states,
                )
                if action is not None:
                    rows.append((action, row_of(action, state.used.usd_nano, state.ratio)))
                for key in due_keys(state.subject, state.period, job.run.job_id):
                    self._resume(key, due_action_of(state.subject, state.period, job, key, state.at_ms))
        self._left = [row for row in self._left if row.idempotency_key not in self._waiting]
        await self._keep(owner, [row for _, row in rows])
        for action, row in rows:
            logger.info(
                "a budget asks for an action",
                extra={"job_id": row.job_id, "action": row.rung, "budget": row.budget, "state": row.state},
            )
            if action.state == REQUESTED:
                self._waiting[row.idempotency_key] = _Request(action, row, self._clock.monotonic_ms())
        await self._expire(owner, wanted)

    async def send_due(self, owner: OwnedShard) -> None:
        """Send what is due and store what came of it; one that hangs delays the others by a timeout at most.

        Raises:
            SinkError: The store could not be written; what was sent is sent again, under the same key.
        """
        if self._waiting and self._mode != "live":
            self._waiting.clear()  # taken back: what is stored goes on once it is live again
        now_ms = self._clock.monotonic_ms()
        due = [each for each in self._waiting.values() if each.due_ms <= now_ms][:_AT_ONCE]
        if not due or owner.gone:
            return
        results = await asyncio.gather(*(self._send(each) for each in due))
        ended: list[ActionRow] = []
        for each, result in zip(due, results, strict=True):
            row = self._after(each, result)
            if row is not None:
                ended.append(row)
        await self._keep(owner, ended)
        for row in ended:
            self._waiting.pop(row.idempotency_key, None)
            if row.state != ACKNOWLEDGED:
                logger.warning(
                    "an action was not taken",
                    extra={
                        "job_id": row.job_id,
                        "action": row.rung,
                        "state": row.state,
                        "reason": row.detail,
                        "runbook": "docs/trouble.md#actions-not-taken",
                    },
                )

    async def _send(self, request: _Request) -> SendResult:
        request.attempt += 1
        try:
            url = self._url(request)
        except SealedAddressError as fault:
            return SendResult("failed", 0, str(fault))
        if url is None or self._signer is None:
            missing = "actions.webhook" if url is None else "a webhook secret"
            return SendResult("failed", 0, f"{missing} is not set")
        grace_ms = request.action.subject.budget.grace_ms
        body = action_body(
            request.action, request.row, self._options.grace_ms if grace_ms is None else grace_ms
        )
        key = request.row.idempotency_key
        headers = self._signer.headers(key, body, self._clock.now_ms())
        try:
            return await self._sender.post(url, body, {**headers, "idempotency-key": key})
        except Exception as fault:  # noqa: BLE001 - one request must not stop the others
            return SendResult("retry", 0, f"could not be sent ({type(fault).__name__})")

    def _url(self, request: _Request) -> str | None:
        own, keys = request.action.subject.budget.webhook, self._options.address_keys
        if own is None:
            return self._options.webhook
        if keys is not None:
            return keys.opened("webhook", own)
        if is_sealed(own):
            raise SealedAddressError(cannot_open(own))
        return own

    def _after(self, request: _Request, result: SendResult) -> ActionRow | None:
        """The row of a final outcome; None: it is tried again."""
        detail = result.detail
        with suppress(SealedAddressError):
            detail = " ".join(filter(None, (shown(self._url(request) or ""), detail)))
        state = _STATES_OF.get(result.verdict)
        if state is None and request.attempt >= self._options.max_attempts:
            state, detail = EXPIRED, f"{detail}; given up after {request.attempt} attempts"
        if state is None:
            asked_ms = retry_after_ms(result.retry_after, self._clock.now_ms())
            wait_ms = delay_ms(request.attempt, self._jitter_ratio(), asked_ms)
            request.due_ms = self._clock.monotonic_ms() + wait_ms
            return None
        return request.row._replace(
            time_ms=self._clock.now_ms(), state=state, attempt=request.attempt, detail=detail
        )

    def _resume(self, key: str, action: DueAction | None) -> None:
        """Take up a request that a former owner stored and whose outcome nobody did; in a dry run nothing is sent."""
        if self._mode != "live":
            return
        rows = [row for row in self._known.get(key, ()) if row.mode == "live"]
        asked = [row for row in rows if row.state == REQUESTED]
        is_done = any(row.state in FINAL and row.attempt for row in rows)
        if asked and not is_done and key not in self._waiting and action is not None:
            self._waiting[key] = _Request(action, asked[0], self._clock.monotonic_ms())

    async def _expire(self, owner: OwnedShard, wanted: set[str]) -> None:
        """End requests that nothing needs any more: the job is over, or the budget has room again."""
        gone = [(each.row, each.attempt) for key, each in self._waiting.items() if key not in wanted]
        gone += [(row, 0) for row in self._left or ()]
        rows = [
            row._replace(
                time_ms=self._clock.now_ms(),
                state=EXPIRED,
                attempt=attempt + 1,
                detail="the job is over, or the budget has room again",
            )
            for row, attempt in gone
        ]
        await self._keep(owner, rows)
        for row in rows:
            self._waiting.pop(row.idempotency_key, None)
        for row in self._left or ():
            self._known.pop(row.idempotency_key, None)  # only its end is known here
        self._left = []

    async def _read(self, keys: set[str]) -> None:
        if keys:
            found = await self._threads.run(stored_actions, self._store, keys)
            self._known |= {key: [row for row in found if row.idempotency_key == key] for key in keys}

    async def _keep(self, owner: OwnedShard, rows: Sequence[ActionRow]) -> None:
        if not rows:
            return
        version = owner.versions.next()
        insert = RuleRows(ACTIONS, action_table(rows, version), token(ACTIONS, version, rows))
        await self._threads.run(self._writer.write, owner, [insert])
        for row in rows:
            self._known.setdefault(row.idempotency_key, []).append(row)

    def _states(self, key: str) -> States:
        return {row.state: row.time_ms for row in self._known.get(key, ()) if row.mode == self._mode}

    async def run(self, owner: Callable[[], OwnedShard | None], every_s: float = 1.0) -> None:
        """Send until cancelled; faults of the store are logged and tried again."""
        while True:
            mine = owner()
            if mine is not None:
                try:
                    await self.send_due(mine)
                except SinkError as fault:
                    logger.warning(
                        "outcomes of actions wait for the store",
                        extra={"error": str(fault), "runbook": "docs/trouble.md#rules-across-jobs"},
                    )
            await asyncio.sleep(every_s)
