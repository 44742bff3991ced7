"""Finds where the rule `double_held` holds: reads which GPUs of nodes jobs hold, where these have too few.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from streams.engine.rules.double_held import NodeHolding, doubly_held, finding
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_judges import held_jobs_sql
from streams.worker.ledger_judges.attempt_begins import AttemptBegins
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

_GPU_MINUTE: Final = 1000 * MINUTE_MS  # in thousandths of a GPU times ms

#: By node, job and minute: the attempt, the thousandths of GPUs times ms, and what they cost.
_Held = dict[str, dict[str, dict[int, tuple[int, int, int]]]]


def double_held_findings(
    store: SqlStore, of: LedgerSettings, instants: range, twins: Mapping[int, Collection[str]]
) -> Iterator[LedgerFinding]:
    """Yield where it holds at these instants; `twins`: jobs that are other ones at an instant, and hold nothing of their own."""
    minutes = int(of.thresholds["minutes"])
    bound = {"from_ms": instants[0] - minutes * MINUTE_MS, "to_ms": instants[-1]}
    if not store.query(held_jobs_sql.IS_THERE, bound).num_rows:
        return
    has: dict[str, dict[int, int]] = {}
    for row in rows_of(store.query(held_jobs_sql.OVER, bound)):
        has.setdefault(row["node"], {})[row["minute_ms"]] = row["has"]
    at = {at_ms: _windowed(has, at_ms, minutes) for at_ms in instants}
    nodes = sorted({node for of_instant in at.values() for node in of_instant})
    if not nodes:
        return
    held = _held(store, nodes, bound)
    sampled = {
        (row["node"], row["job_id"], row["minute_ms"])
        for row in named_rows(store, held_jobs_sql.SAMPLED, "nodes", nodes, **bound)
    }
    begins = AttemptBegins(store, {job_id for of_node in held.values() for job_id in of_node})
    for at_ms, room in at.items():
        window = range(at_ms - minutes * MINUTE_MS, at_ms, MINUTE_MS)
        holdings = _holdings(room, held, window, begins, sampled)
        own = (each for each in holdings if each.job_id not in twins.get(at_ms, ()))
        for double in doubly_held(own, room):
            yield finding(of, double, at_ms, begins.about)


def _held(store: SqlStore, nodes: Sequence[str], bound: Mapping[str, object]) -> _Held:
    held: _Held = {}
    for row in named_rows(store, held_jobs_sql.HOLDERS, "nodes", nodes, **bound):
        minutes = held.setdefault(row["node"], {}).setdefault(row["job_id"], {})
        minutes[row["minute_ms"]] = row["last_attempt"], row["held"], row["nano"]
    return held


def _windowed(has: Mapping[str, Mapping[int, int]], at_ms: int, minutes: int) -> dict[str, int]:
    """The nodes of which too much is held in each of the minutes before an instant, and the whole GPUs that they have."""
    window = range(at_ms - minutes * MINUTE_MS, at_ms, MINUTE_MS)
    return {
        node: -(-max(of_node[each] for each in window) // _GPU_MINUTE)
        for node, of_node in has.items()
        if all(each in of_node for each in window)
    }


def _holdings(
    nodes: Iterable[str],
    held: _Held,
    window: range,
    begins: AttemptBegins,
    sampled: Collection[tuple[str, str, int]],
) -> Iterator[NodeHolding]:
    """What each job held of each of the nodes in every minute of the window."""
    for node in nodes:
        for job_id, minutes in held.get(node, {}).items():
            if any(each not in minutes for each in window):
                continue
            rows = [minutes[each] for each in window]
            yield NodeHolding(
                node,
                job_id,
                min(quantity for _, quantity, _ in rows) // _GPU_MINUTE,
                begins.began_ms(job_id, max(attempt for attempt, _, _ in rows)),
                sum(nano for _, _, nano in rows),
                any((node, job_id, each) in sampled for each in window),
            )
