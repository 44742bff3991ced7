"""What jobs pay of the SKUs of which revisions are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Final

from schemas.columns import rows_of
from schemas.durations import HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.engine.rules.price_jump import USED_MS, PriceJump, PriceUse
from streams.worker.ledger_rules.reader import SqlStore

_DEAREST: Final = 3
#: In whole minutes before the instant. Rows of one job may have both prices.
USED: Final = f"""
SELECT sku, job_id, toInt64(toDecimal128(price_usd, 9) * 1000000000) AS price_nano, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS cost_nano
FROM job_minutes FINAL
PREWHERE minute >= toDateTime(intDiv({{from_ms:Int64}}, 1000), 'UTC') AND minute < toDateTime(intDiv({{to_ms:Int64}}, 1000), 'UTC')
WHERE sku IN {{skus:Array(String)}} AND price_usd > 0 AND quantity > 0 AND {USERS_JOBS}
GROUP BY sku, job_id, price_usd"""


def price_uses(store: SqlStore, jumps: Iterable[PriceJump]) -> Iterator[tuple[PriceJump, PriceUse]]:
    """Yield each of these jumps, which come in order of time, with what jobs paid of its SKU just before; blocks."""
    for at_ms, of_minute in groupby(jumps, lambda jump: jump.at_ms):
        found = list(of_minute)
        skus = sorted({jump.sku for jump in found})
        rows = rows_of(store.query(USED, {"from_ms": at_ms - USED_MS, "to_ms": at_ms, "skus": skus}))
        # What was paid of each SKU by job, in units of its price.
        units: dict[str, dict[str, Fraction]] = {}
        for row in rows:
            of_sku = units.setdefault(row["sku"], {})
            amount = Fraction(row["cost_nano"], row["price_nano"])
            of_sku[row["job_id"]] = of_sku.get(row["job_id"], Fraction(0)) + amount
        for jump in found:
            yield jump, _use(jump, units.get(jump.sku, {}))


def _use(jump: PriceJump, units: dict[str, Fraction]) -> PriceUse:
    more_nano = sum(units.values(), Fraction(0)) * (jump.usd_nano - jump.before_nano) * HOUR_MS / USED_MS
    dearest = sorted(units, key=lambda job_id: (-units[job_id], job_id))[:_DEAREST]
    return PriceUse(len(units), round(more_nano), dearest)
