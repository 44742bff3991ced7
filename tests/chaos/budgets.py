"""Budgets in a chaos run: their records, who gets their messages, and what must have been told at the end.

It must not forgive: none lost, none twice but under the same id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from schemas.budget_tables import BUDGET_USE
from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import webhook_id
from streams.engine.alerts.budgets import budget_of
from streams.engine.ledger_rules.budget_used import BUDGET_USED
from streams.engine.ledger_rules.findings import budget_alert_id
from streams.engine.ledger_rules.periods import ALWAYS
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.notify.webhooks.receiver import Received
from streams.worker.ledger_rules.reader import LATE_MS
from tests.chaos.fleet import BEGIN_MS, MINUTE_MS, Event
from tests.oracle.budgets import PERCENTS, reached
from tests.oracle.model import Tables
from tests.simulator.ledger_check import used_by_minute

#: Which thresholds are reached, is up to the run.
RECORDS: Final = tuple(
    {"name": f"{name}-{usd}", field: name, "usd": usd, "per": "total"}
    for field, name in (("team", "red"), ("team", "blue"), ("owner", "ann"))
    for usd in ("20", "60", "180", "540", "100000")
)
_PATIENCE_S: Final = 480.0


def records() -> Iterator[Event]:
    """The records of `controls`."""
    for number, record in enumerate(RECORDS):
        about = {"source": "budgets", "id": f"b{number}", "time_ms": BEGIN_MS, "kind": "budget"}
        yield Event("controls", f"budget/{record['name']}", orjson.dumps({**about, **record}))


def wait_for_a_look(store: ClickHouseStore, begun_ms: int) -> None:
    """Return once budgets were judged of all that is stored now, by records that are in force since `begun_ms`.

    Shards are paid up to a set instant, so all of them are late, and minutes are judged five minutes later.
    """
    least_ms = max(time.time_ns() // 1_000_000 - LATE_MS, begun_ms) + MINUTE_MS
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        newest = store.query(
            f"SELECT toInt64(toUnixTimestamp64Milli(max(time))) AS ms FROM {BUDGET_USE}"
        ).to_pylist()
        if newest[0]["ms"] >= least_ms // MINUTE_MS * MINUTE_MS or time.monotonic() > deadline_s:
            return
        time.sleep(0.5)


def budget_differences(
    store: ClickHouseStore, tables: Tables, as_of_ms: int, received: Sequence[Received]
) -> Iterator[str]:
    """One sentence per fault; `tables`: the oracle's."""
    rows = {row["alert_id"]: row for row in store.select(ALERTS).to_pylist() if row["rule"] == BUDGET_USED}
    # Of jobs that go on the minute in which they are paid last is left out.
    until_ms = as_of_ms // MINUTE_MS * MINUTE_MS
    for record in RECORDS:
        match: dict[str, str] = {name: str(record[name]) for name in ("team", "owner") if name in record}
        subject = BudgetSubject(budget_of(str(record["name"]), record, match))
        limits = [subject.budget.limits.usd_nano, None, None]
        used = [sum(each) for each in zip(*used_by_minute(tables, match, until_ms).values(), strict=True)]
        want = {percent for percent in PERCENTS if used and reached(used, limits, percent)}
        found = {
            percent: rows.get(budget_alert_id(BUDGET_USED, subject, percent, ALWAYS)) for percent in PERCENTS
        }
        got = {percent for percent, row in found.items() if row is not None and row["status"] == "firing"}
        if not got <= want or (want and max(want) not in got):
            yield f"budget {record['name']}: {sorted(got)} % fire, used {used[:1]} of {limits[0]}"
    ids = {each.webhook_id for each in received}
    for alert_id, row in rows.items():
        changed_ms = round(row["changed"].timestamp() * 1000)
        if webhook_id(alert_id, row["status"], changed_ms) not in ids:
            yield f"budget alert {row['summary']}: {row['status']} was not sent"
        told = {
            each.webhook_id
            for each in received
            if each.data.get("alert_id") == alert_id and each.data["status"] == "firing"
        }
        if len(told) > row["firings"]:
            yield f"budget alert {row['summary']}: was sent under {len(told)} ids"
