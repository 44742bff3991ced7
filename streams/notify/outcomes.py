"""Records the outcome of each delivery: as a row, a log line, a counter, and in this process's history."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from streams.clock import Clock
from streams.engine.alerts.alert import Alert, webhook_id
from streams.engine.rules.formatting import instant, one_line
from streams.notify.delivery_rows import DeliveryRow, DeliveryWriter
from streams.notify.history import SAID_FROM_MS, WAITING, RecentDeliveries
from streams.notify.webhooks.sender import SendResult

logger = logging.getLogger(__name__)

_BAD: Final = frozenset(("failed", "refused", "unsupported"))


class OutcomeRecorder:
    """Records outcomes; `outcomes` counts them."""

    def __init__(self, ledger: DeliveryWriter, recent: RecentDeliveries, clock: Clock) -> None:
        self._ledger = ledger
        self._recent = recent
        self._clock = clock
        self.outcomes: Counter[str] = Counter()

    def record(
        self,
        alert: Alert,
        receiver: str,
        outcome: str,
        detail: str,
        *,
        attempt: int = 0,
        http_status: int = 0,
        is_logged: bool = True,
    ) -> None:
        """Record the outcome of an attempt; attempt 0: none was made. Of a message about many alerts one is logged."""
        message = webhook_id(alert.alert_id, alert.status, alert.changed_ms)
        now_ms = self._clock.now_ms()
        row = DeliveryRow(
            time_ms=now_ms,
            alert_id=alert.alert_id,
            webhook_id=message,
            status=alert.status,
            receiver=receiver,
            attempt=attempt,
            outcome=outcome,
            http_status=http_status,
            detail=detail,
        )
        self._ledger.add(row)
        self._recent.add(message, receiver, attempt, outcome, now_ms)
        self.outcomes[outcome] += 1
        if not is_logged:
            return
        bad = outcome in _BAD
        logger.log(
            logging.WARNING if bad else logging.INFO,
            "alert delivery",
            extra={
                "outcome": outcome,
                "alert_id": alert.alert_id,
                "rule": alert.rule,
                "status": alert.status,
                "subject_kind": alert.subject_kind,
                "subject": one_line(alert.subject_name),
                "receiver": one_line(receiver),
                "attempt": attempt,
                "http_status": http_status,
                "reason": detail,
                **({"runbook": "docs/trouble.md#messages-not-delivered"} if bad else {}),
            },
        )

    def waits(self, alert: Alert, receiver: str, left_ms: int, reason: str) -> None:
        """Record what a message waits for, and until when, unless it is sent soon; the next outcome takes its place."""
        if left_ms > SAID_FROM_MS:
            until_ms = self._clock.now_ms() + left_ms
            self.record(alert, receiver, WAITING, f"waits {reason}, until {instant(until_ms)} at the latest")

    def refreshed(self, receiver: str, answer: SendResult) -> bool:
        """Count a repetition of what fires, which has no row; return whether it was taken."""
        taken = answer.verdict == "delivered"
        self.outcomes["refreshed" if taken else "refresh_failed"] += 1
        if not taken:
            logger.warning(
                "alerts that fire were not sent again, their receiver may take them for resolved",
                extra={
                    "receiver": one_line(receiver),
                    "http_status": answer.http_status,
                    "reason": answer.detail,
                    "runbook": "docs/trouble.md#messages-not-delivered",
                },
            )
        return taken
