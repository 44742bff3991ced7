"""What jobs pay of the SKUs of which revisions are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Final

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.reserved import USERS_JOBS
from streams.engine.rules.price_jump import USED_MS, PriceJump, PriceUse
from streams.worker.ledger_judges.reader import SqlStore

_DEAREST: Final = 3
#: Windows that one statement looks at: each reads the minutes of all jobs of its months anew.
_AT_ONCE: Final = 200
#: In whole minutes before each of the instants. Rows of one job may have both prices.
USED: Final = f"""
SELECT at_ms, sku, job_id, toInt64(toDecimal128(price_usd, 9) * 1000000000) AS price_nano, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS cost_nano
FROM
(
    SELECT arrayJoin(arrayFilter(at -> at > begin_ms AND at <= begin_ms + {USED_MS}, {{instants:Array(Int64)}})) AS at_ms,
        toInt64(toUnixTimestamp(minute)) * 1000 AS begin_ms, sku, job_id, price_usd, cost_usd
    FROM job_minutes FINAL
    PREWHERE minute >= toDateTime(intDiv({{from_ms:Int64}}, 1000), 'UTC') AND minute < toDateTime(intDiv({{to_ms:Int64}}, 1000), 'UTC')
        AND intDiv(toUnixTimestamp(minute), 60) IN {{minutes:Array(Int64)}}
    WHERE sku IN {{skus:Array(String)}} AND price_usd > 0 AND quantity > 0 AND {USERS_JOBS}
)
GROUP BY at_ms, sku, job_id, price_usd"""

#: What was paid of a SKU by job, in units of its price, by instant and SKU.
_Units = dict[tuple[int, str], dict[str, Fraction]]


def price_uses(store: SqlStore, jumps: Iterable[PriceJump]) -> Iterator[tuple[PriceJump, PriceUse]]:
    """Yield each of these jumps, which come in order of time, with what jobs paid of its SKU just before; blocks."""
    waiting: list[PriceJump] = []
    for _, of_minute in groupby(jumps, lambda jump: jump.at_ms):
        waiting += of_minute
        if len(waiting) >= _AT_ONCE:
            yield from _used(store, waiting)
            waiting = []
    if waiting:
        yield from _used(store, waiting)


def _used(store: SqlStore, jumps: Sequence[PriceJump]) -> Iterator[tuple[PriceJump, PriceUse]]:
    instants = sorted({jump.at_ms for jump in jumps})
    minutes = {at_ms // MINUTE_MS - back for at_ms in instants for back in range(1, USED_MS // MINUTE_MS + 1)}
    bound = {
        "instants": instants,
        "minutes": sorted(minutes),
        "skus": sorted({jump.sku for jump in jumps}),
        "from_ms": instants[0] - USED_MS,
        "to_ms": instants[-1],
    }
    units: _Units = {}
    for row in rows_of(store.query(USED, bound)):
        of_sku = units.setdefault((row["at_ms"], row["sku"]), {})
        amount = Fraction(row["cost_nano"], row["price_nano"])
        of_sku[row["job_id"]] = of_sku.get(row["job_id"], Fraction(0)) + amount
    for jump in jumps:
        yield jump, _use(jump, units.get((jump.at_ms, jump.sku), {}))


def _use(jump: PriceJump, units: dict[str, Fraction]) -> PriceUse:
    more_nano = sum(units.values(), Fraction(0)) * (jump.usd_nano - jump.before_nano) * HOUR_MS / USED_MS
    dearest = sorted(units, key=lambda job_id: (-units[job_id], job_id))[:_DEAREST]
    return PriceUse(len(units), round(more_nano), dearest)
