"""Finds where the rule `after_node` holds: reads what jobs pay for nodes that are gone.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from streams.engine.rules.after_node import BilledOn, finding
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_judges import held_jobs_sql
from streams.worker.ledger_judges.attempt_begins import AttemptBegins
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

#: By job, node and minute: the attempt, and what it paid.
_Billed = dict[str, dict[str, dict[int, tuple[int, int]]]]


def after_node_findings(store: SqlStore, of: LedgerSettings, instants: range) -> Iterator[LedgerFinding]:
    """Yield where it holds at these instants."""
    minutes = int(of.thresholds["minutes"])
    bound = {"from_ms": instants[0] - minutes * MINUTE_MS, "to_ms": instants[-1]}
    if not store.query(held_jobs_sql.HAS_NODES, {}).num_rows:
        return
    billed: _Billed = {}
    for row in rows_of(store.query(held_jobs_sql.WITHOUT_NODE, bound)):
        of_node = billed.setdefault(row["job_id"], {}).setdefault(row["node"], {})
        of_node[row["minute_ms"]] = row["last_attempt"], row["nano"]
    billed = {
        job_id: {node: rows for node, rows in of_job.items() if len(rows) >= minutes}
        for job_id, of_job in billed.items()
        if any(len(rows) >= minutes for rows in of_job.values())
    }
    if not billed:
        return
    begins = AttemptBegins(store, billed)
    nodes = sorted({node for of_job in billed.values() for node in of_job})
    since = {"from_ms": min(begins.first_ms(), instants[0]), "to_ms": instants[-1]}
    paid: dict[str, list[int]] = {}
    for row in named_rows(store, held_jobs_sql.LAST_PAID, "nodes", nodes, **since):
        paid.setdefault(row["node"], []).append(row["last_ms"] + MINUTE_MS)
    for ends in paid.values():
        ends.sort()
    stored = {
        row["node"]: row["stored_ms"] for row in named_rows(store, held_jobs_sql.STORED, "nodes", nodes)
    }
    for at_ms in instants:
        window = range(at_ms - minutes * MINUTE_MS, at_ms, MINUTE_MS)
        known = {node for node in nodes if stored.get(node, 0) >= at_ms}
        for job_id, of_job in sorted(billed.items()):
            gone = [*_gone(job_id, of_job, window, paid, begins)]
            gone = [each for each in gone if each.node in known]
            if gone:
                yield finding(of, job_id, gone, at_ms, begins.about(job_id))


def _gone(
    job_id: str,
    of_job: Mapping[str, Mapping[int, tuple[int, int]]],
    window: range,
    paid: Mapping[str, list[int]],
    begins: AttemptBegins,
) -> Iterator[BilledOn]:
    """The nodes that were gone in the whole window in which the job was billed on them, and that it held before."""
    for node, rows in sorted(of_job.items()):
        if any(each not in rows for each in window):
            continue
        ends = paid.get(node, [])
        place = bisect_left(ends, window.start + 1)
        attempt = max(rows[each][0] for each in window)
        if place and begins.began_ms(job_id, attempt) < ends[place - 1]:
            yield BilledOn(node, ends[place - 1], sum(rows[each][1] for each in window))
