"""Explains one job's cost: the queries to the store, and the conversion of their results to intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from schemas.reserved import is_canary_job
from streams.engine.snapshot.job_blobs import JobBlob
from streams.explain.intervals import Interval, exact, merged, total_usd
from streams.explain.stored import ExplainedStore, StoredJobs

_BOOKED: Final = "SELECT cost_usd FROM job_costs WHERE job_id = {job:String}"
# The views exclude the canary, but an operator paged by it needs its explanation.
_BOOKED_CANARY: Final = """
SELECT toDecimal128(sum(cost_usd), 9) AS cost_usd FROM job_minutes FINAL
WHERE job_id = {job:String} AND quantity != 0 HAVING count() > 0
"""
_SHARD: Final = "SELECT shard FROM jobs FINAL WHERE job_id = {job:String}"
#: How much a shard has stored, of jobs of all teams.
STATE_BYTES: Final = "SELECT sum(length(blob)) AS size_bytes FROM snapshots WHERE shard = {shard:UInt64}"
# Minutes in a row that are equal in all but their time come as one record: a job of a month has few of them, of 100,000 rows.
_ROWS: Final = """
SELECT l.minute AS minute, l.minutes AS minutes, l.attempt AS attempt, l.node AS node, l.component AS component, l.phase AS phase,
       l.sku AS sku, l.price_effective AS price_effective, l.price_usd AS price_usd, l.quantity AS quantity,
       l.unit AS unit, l.path AS path, l.direction AS direction, l.region AS region, l.dst_region AS dst_region,
       l.op AS op, l.storage_class AS storage_class, l.cost_usd AS cost_usd, l.lost_cost_usd AS lost_cost_usd, l.lost_quantity AS lost_quantity,
       p.per AS per, p.gpus AS gpus, p.match AS match, a.started AS started, a.ended AS ended, a.gpu_type AS gpu_type
FROM
(
    SELECT toDateTime(run[1], 'UTC') AS minute, length(run) AS minutes, * EXCEPT (times)
    FROM
    (
        SELECT arraySort(groupArray(toUnixTimestamp(minute))) AS times, attempt, node, component, phase, sku, price_effective,
            price_usd, quantity, unit, path, direction, region, dst_region, op, storage_class, cost_usd, lost_cost_usd, lost_quantity
        FROM job_minutes FINAL WHERE job_id = {job:String} AND quantity != 0
        GROUP BY ALL
    )
    ARRAY JOIN arraySplit((time, step) -> step != 60, times, arrayDifference(times)) AS run
) AS l
LEFT JOIN (SELECT attempt, started, ended, gpu_type FROM attempts FINAL WHERE job_id = {job:String}) AS a
  ON a.attempt = l.attempt
LEFT JOIN (SELECT sku, effective, per, gpus, match FROM prices FINAL) AS p
  ON p.sku = l.sku AND p.effective = l.price_effective
"""
# A worker may store rows between two queries; then the results disagree, and are queried again.
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every interval of one job's cost; `booked_usd` is the cost in `job_costs`, queried separately.

    `fallback`: why the intervals are minutes although `by_minute` is false: `too_large` (the shard's stored state),
    `no_state` (neither snapshots nor archive have the job), `differs` (rows and state disagree); otherwise "".
    """

    job_id: str
    intervals: Sequence[Interval]
    total_usd: Decimal
    booked_usd: Decimal
    fallback: str = ""


def explained(
    store: ExplainedStore,
    job_id: str,
    *,
    by_minute: bool = False,
    state_max_bytes: int | None = None,
    stored: StoredJobs | None = None,
) -> Explanation | None:
    """Explain one job; None if the store does not know it.

    Intervals are exact to the millisecond unless `by_minute`, or the shard's stored state exceeds `state_max_bytes`, or
    rows and state disagree: then they are the ledger's minutes, and `stored` counts the fallback.
    """
    stored = StoredJobs() if stored is None else stored
    is_canary = is_canary_job(job_id)
    for left in range(_TRIES - 1, -1, -1):
        booked = _records(store, _BOOKED_CANARY if is_canary else _BOOKED, job=job_id)
        if not booked:
            return None
        booked_usd = Decimal(str(booked[0]["cost_usd"]))
        rows = _records(store, _ROWS, job=job_id)
        state, fallback = (None, "") if by_minute else _state(store, job_id, state_max_bytes, stored)
        found = None if state is None else exact(state, rows)
        if found is None and state is not None:
            if left:
                continue
            fallback = "differs"
        intervals = merged(rows, by_minute=by_minute) if found is None else found
        total = total_usd(intervals)
        if total == booked_usd or not left:
            if fallback:
                stored.fell_back(fallback)
            return Explanation(job_id, intervals, total, booked_usd, fallback)
    raise AssertionError("the last try returns")


def state_of(
    store: ExplainedStore, job_id: str, state_max_bytes: int | None = None, stored: StoredJobs | None = None
) -> JobBlob | None:
    """The job's state as last stored by its shard; None if there is none, or if it is too large to read."""
    return _state(store, job_id, state_max_bytes, StoredJobs() if stored is None else stored)[0]


def _state(
    store: ExplainedStore, job_id: str, state_max_bytes: int | None, stored: StoredJobs
) -> tuple[JobBlob | None, str]:
    """The state, or None and the reason."""
    shard, reason = shard_of(store, job_id, state_max_bytes)
    if shard is None:
        return None, reason
    state = stored.job(store, shard, job_id)
    return state, "no_state" if state is None else ""


def shard_of(store: ExplainedStore, job_id: str, state_max_bytes: int | None) -> tuple[int | None, str]:
    """The shard that stores the job's state; None and one of `FALLBACKS` where it cannot be read."""
    found = _records(store, _SHARD, job=job_id)
    if not found:
        return None, "no_state"
    shard = int(str(found[0]["shard"]))
    if state_max_bytes is not None:
        (size,) = _records(store, STATE_BYTES, shard=shard)
        if int(str(size["size_bytes"])) > state_max_bytes:
            return None, "too_large"
    return shard, ""


def _records(store: ExplainedStore, sql: str, **parameters: object) -> list[dict[str, object]]:
    return store.ask(sql, parameters).records()
