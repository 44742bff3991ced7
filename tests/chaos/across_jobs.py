"""Budgets, rules across jobs and receipts in a chaos run: their records, who gets their messages, what must have been told."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from standardwebhooks import Webhook, WebhookVerificationError

from schemas.budget_tables import BUDGET_USE
from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import webhook_id
from streams.notify.webhooks.receiver import Received
from streams.worker.ledger_judges.known_alerts import RULES
from tests.chaos import budgets, hourly, receipts
from tests.chaos.fleet import DAY_AFTER_MS, Event, length_ms
from tests.chaos.present import PAID_UNTIL_MS, WEEK_END_MS, Present
from tests.kafka.test_alerts_live import SECRET, Inbox
from tests.oracle.model import Json, Line, Tables

#: Between two looks at what was told.
_REST_S: Final = 2.0
#: A message may be so much older than now, or later.
_TOLERANCE_S: Final = 300.0
_KINDS: Final = (("budget", budgets.RECORDS), ("rule", hourly.RECORDS), ("receipt", receipts.RECORDS))


class OwnInbox(Inbox):
    """Verifies messages that are sent in another present."""

    def __init__(self, present: Present) -> None:
        super().__init__()
        self.receiver._webhook = _OwnWebhook(SECRET, present)


class _OwnWebhook(Webhook):
    def __init__(self, secret: str, present: Present) -> None:
        super().__init__(secret)
        self._present = present

    def verify(self, data: bytes | str, headers: dict[str, str], *, json_parse: bool = True) -> Any:
        sent_s = int(headers["webhook-timestamp"])
        text = data if isinstance(data, str) else data.decode()
        signature = self.sign(headers["webhook-id"], datetime.fromtimestamp(sent_s, UTC), text)
        if signature not in headers["webhook-signature"].split():
            raise WebhookVerificationError("no signature fits")
        if abs(self._present.now_ms() / 1000 - sent_s) > _TOLERANCE_S:
            raise WebhookVerificationError("too old or too new")
        return json.loads(text) if json_parse else None


def records(begin_ms: int) -> Iterator[Event]:
    """The records of `controls`; `begin_ms`: who asks for receipts does so from then on."""
    for kind, of_kind in _KINDS:
        for number, record in enumerate(of_kind):
            about = {"source": "across", "id": f"{kind}-{number}", "time_ms": begin_ms, "kind": kind}
            yield Event("controls", f"{kind}/{record['name']}", orjson.dumps({**about, **record}))


@dataclass(frozen=True)
class Wanted:
    """What the log comes to, by the oracle."""

    tables: Tables
    prices: list[Line]
    seconds: int  # of a fleet's jobs
    begun_ms: int


def wait_until_told(
    store: ClickHouseStore, received: list[Received], wanted: Wanted, patience_s: float
) -> list[str]:
    """Look until all was told that must be; return what is not right by then."""
    deadline_s = time.monotonic() + patience_s
    while True:
        found = list(_differences(store, received, wanted))
        if not found or time.monotonic() > deadline_s:
            return found
        time.sleep(_REST_S)


def _differences(store: ClickHouseStore, received: list[Received], wanted: Wanted) -> Iterator[str]:
    judged_ms = _judged_ms(store)
    if judged_ms < PAID_UNTIL_MS:
        yield f"minutes are judged up to {judged_ms} only, jobs are paid until {PAID_UNTIL_MS}"
        return
    rows = {row["alert_id"]: row for row in store.select(ALERTS).to_pylist()}
    yield from budgets.budget_differences(rows, wanted.tables, judged_ms)
    yield from hourly.hour_differences(rows.values(), wanted.tables, wanted.prices, WEEK_END_MS)
    second_day_ms = wanted.begun_ms - length_ms(wanted.seconds) + DAY_AFTER_MS
    yield from receipts.receipt_differences(store, wanted.tables, received, second_day_ms, WEEK_END_MS)
    yield from _untold(rows, received)


def _judged_ms(store: ClickHouseStore) -> int:
    """The last minute at which budgets were judged."""
    newest = store.query(f"SELECT toInt64(toUnixTimestamp64Milli(max(time))) AS ms FROM {BUDGET_USE}")
    return int(newest["ms"].to_pylist()[0])


def _untold(rows: Mapping[str, Json], received: Iterable[Received]) -> Iterator[str]:
    """Each last change was sent; no alert fired under more ids than it fired."""
    told: dict[tuple[str, str], set[str]] = {}
    for each in received:
        if "alert_id" in each.data:
            told.setdefault((each.data["alert_id"], each.data["status"]), set()).add(each.webhook_id)
    ids = set[str]().union(*told.values())
    for alert_id, row in rows.items():
        if row["rule"] not in RULES or row["silenced"]:
            continue
        changed_ms = round(row["changed"].timestamp() * 1000)
        if webhook_id(alert_id, row["status"], changed_ms) not in ids:
            yield f"alert {row['summary']}: {row['status']} was not sent"
        for status in ("firing", "resolved"):
            if (count := len(told.get((alert_id, status), ()))) > row["firings"]:
                yield f"alert {row['summary']}: {status} was sent under {count} ids"


def told(received: Iterable[Received]) -> Counter[str]:
    """How many messages there were of each rule across jobs, of receipts and digests; those that came twice once."""
    return Counter(str(each.data.get("rule", each.type)) for each in received)


#: What must have been told of at least once: a comparison of what never fires would say nothing.
LEAST: Final = {*hourly.COMPARED, "budget_used", "budget_forecast", "job.ended", "digest.weekly"}
