"""The SQL of closed months, and hashes of the rows that a month is made of. Values are bound as parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache
from typing import Final

from schemas.reserved import CANARY, USERS_JOBS
from streams.costs.loaded_bills_sql import LOAD_USD, LOADS_USD
from streams.costs.month_reader import MonthSource, records

#: Lines whose hashes one query holds: 32 bytes of each.
_LINES: Final = 500_000

#: Months before a day of which users' jobs have hours.
BEFORE: Final = f"""
SELECT DISTINCT formatDateTime(hour, '%Y-%m') AS name FROM job_hours
WHERE hour < toDateTime({{first:String}}, 'UTC') AND {USERS_JOBS} ORDER BY name
"""
#: Rows of the closing that has the manifest: of two that met at a server those of one count.
CHARGES: Final = """
SELECT c.*, formatDateTime(c.of_month, '%Y-%m') AS of_name
FROM closed_charges AS c FINAL
WHERE (c.month, c.version) IN (SELECT month, version FROM closed_months FINAL)
    AND ({month:String} = '' OR toString(toDate(c.month)) = {month:String})
    AND ({of_month:String} = '' OR toString(toDate(c.of_month)) = {of_month:String})
    AND ({every:Bool} OR (c.team = {team:String} AND c.kind IN ('jobs', 'unused', 'shared')))
"""
BILLS: Final = f"""
SELECT l.load_id AS load_id, l.file AS file, l.invoice_issuer_name AS issuer, l.billing_account_id AS account, l.lines AS lines,
       {LOAD_USD} AS billed_usd
FROM {LOADS_USD}
WHERE l.status = 'loaded' AND toDate(l.billing_period_start) >= {{first:String}} AND toDate(l.billing_period_start) < {{until:String}}
ORDER BY issuer, account, load_id
"""
RATES_SINCE: Final = (
    "SELECT count() AS rates FROM fx_rates FINAL WHERE toUnixTimestamp64Milli(time) > {since_ms:Int64}"
)


def _hashed(table: str, listed: str, where: str) -> str:
    """SQL for the count of rows and one hash of them all, whatever their order."""
    return (
        f"SELECT count() AS rows, lower(hex(SHA256(arrayStringConcat(arraySort(groupArray(SHA256(toString(({listed}))))))))) AS digest "
        f"FROM `{table}` FINAL WHERE {where}"
    )


@cache
def _hashed_whole(table: str, where: str) -> str:
    """The same of all columns that say something of the row."""
    from schemas.tables import SCHEMAS  # loads Arrow, which no command that only asks needs

    names = [f"`{name}`" for name in SCHEMAS[table].names if name not in ("shard", "version")]
    return _hashed(table, ", ".join(names), where)


_OF_FILE: Final = (
    "load_id = {load:String} AND billing_period_start >= {first:String} AND billing_period_start < {until:String} "
    "AND line >= {from:Int64} AND line < {to:Int64}"
)
_LAST_LINE: Final = "SELECT max(line) AS line FROM bill_lines WHERE load_id = {load:String}"
_OF_HOURS: Final = "hour >= {first:String} AND hour < {until:String}"
#: What could be used in a month. The canary has prices of its own, each as it runs.
_PRICES: Final = _hashed(
    "prices",
    "`sku`, `component`, `usd`, `per`, `gpus`, `effective`, `match`",
    f"effective < toDateTime({{until:String}}, 'UTC') AND NOT startsWith(sku, '{CANARY}')",
)


def prices_digest(store: MonthSource, span: Mapping[str, str]) -> str:
    """SHA-256 over the prices that hold up to the end of a month."""
    return str(records(store, _PRICES, until=span["until"])[0]["digest"])


def bill_digest(store: MonthSource, load_id: str, span: Mapping[str, str]) -> str:
    """SHA-256 over the lines of one file of a month's bills, as they are stored."""
    found = hashlib.sha256()
    (last,) = records(store, _LAST_LINE, load=load_id)
    for begin in range(0, int(last["line"]) + 1, _LINES):
        page = {"load": load_id, "from": begin, "to": begin + _LINES}
        (row,) = records(store, _hashed_whole("bill_lines", _OF_FILE), **span, **page)
        found.update(f"{row['rows']} {row['digest']}\n".encode())
    return found.hexdigest()


def ledger_digest(store: MonthSource, span: Mapping[str, str]) -> dict[str, str]:
    """For each day on which something was paid SHA-256 over the hours of its jobs and nodes."""
    found = {}
    day, until = date.fromisoformat(span["first"]), date.fromisoformat(span["until"])
    while day < until:
        given = {"first": day.isoformat(), "until": (day + timedelta(1)).isoformat()}
        rows = [
            records(store, _hashed_whole(table, _OF_HOURS), **given)[0]
            for table in ("job_hours", "node_hours")
        ]
        if any(row["rows"] for row in rows):
            text = "".join(f"{row['rows']} {row['digest']}\n" for row in rows)
            found[day.isoformat()] = hashlib.sha256(text.encode()).hexdigest()
        day += timedelta(1)
    return found
