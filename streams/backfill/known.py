"""Which of the jobs and nodes of a backfill the store has from others: the live meter, or earlier backfills.

All calls block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.columns import rows_of, values_of
from schemas.reserved import FIRST_BACKFILL_SHARD
from schemas.tables import JOBS
from sinks.archive import id_batches
from sinks.port import Store
from sinks.rows import Condition
from streams.backfill.histories import Owner, Skipped

#: Hours and not minutes: months of minutes may have been dropped. An hour that began before is one too many at most.
_NODES: Final = """
SELECT node, min(shard) AS shard FROM
(
    SELECT node, shard FROM node_hours FINAL
    WHERE shard != {shard:UInt16} AND paid_ms != 0 AND hour < toDateTime(intDiv({until_ms:Int64}, 1000), 'UTC')
    UNION ALL
    SELECT node, shard FROM unattributed_minutes FINAL
    WHERE shard != {shard:UInt16} AND minute < toDateTime(intDiv({until_ms:Int64}, 1000), 'UTC')
)
GROUP BY node"""


def known_owners(store: Store, owners: Iterable[Owner], shard: int, until_ms: int) -> dict[Owner, Skipped]:
    """Those of the jobs that other shards than `shard` have, and of the nodes those with rows before `until_ms`."""
    jobs, nodes = set[str](), set[str]()
    for owner in owners:
        (nodes if owner.is_node else jobs).add(owner.name)
    found: dict[Owner, Skipped] = {}
    for ids in id_batches(sorted(jobs)):
        rows = store.select(JOBS, [Condition("job_id", "in", ids)], ("job_id", "shard"))
        for job_id, number in zip(*map(values_of, rows.columns), strict=True):
            if number != shard:
                found[Owner(job_id)] = _by(number)
    if nodes:
        for row in rows_of(store.query(_NODES, {"shard": shard, "until_ms": until_ms})):
            if row["node"] in nodes:
                found[Owner(row["node"], is_node=True)] = _by(row["shard"])
    return found


def _by(shard: int) -> Skipped:
    return Skipped.LIVE if shard < FIRST_BACKFILL_SHARD else Skipped.BEFORE
