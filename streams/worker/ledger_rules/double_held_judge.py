"""Judges the rule `double_held` at whole five minutes: reads which GPUs of nodes jobs hold, and steps the alerts.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.episodes import lasting_changes
from streams.engine.rules.double_held import EVERY_MS, NodeHolding, doubly_held, finding
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_rules import double_held_sql
from streams.worker.ledger_rules.reader import SqlStore

#: Names of one parameter: ClickHouse refuses one of more than 128 KiB.
_NAMES_AT_ONCE: Final = 400
_GPU_MINUTE: Final = 1000 * MINUTE_MS  # in thousandths of a GPU times ms
#: Samples may come so late: whether a job is alive is looked at before.
_SAMPLES_LATE_MS: Final = 2 * EVERY_MS

#: By node, job and minute: the attempt, the thousandths of GPUs times ms, and what they cost.
_Held = dict[str, dict[str, dict[int, tuple[int, int, int]]]]


class DoubleHeldJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, of: LedgerSettings, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the whole five minutes in (since_ms, until_ms]."""
        instants = range(since_ms // EVERY_MS * EVERY_MS + EVERY_MS, until_ms + 1, EVERY_MS)
        if not instants:
            return []
        found = list(self._found(of, instants)) if of.enabled else []
        jobs = sorted({alert.subject_name for alert in firing} | {each.subject_name for each in found})
        lasts = self._lasting(jobs, instants) if of.enabled else ()
        return lasting_changes(firing, found, lasts, instants)

    def _found(self, of: LedgerSettings, instants: range) -> Iterator[LedgerFinding]:
        minutes = int(of.thresholds["minutes"])
        bound = {"from_ms": instants[0] - minutes * MINUTE_MS, "to_ms": instants[-1]}
        if not self._store.query(double_held_sql.IS_THERE, bound).num_rows:
            return
        has: dict[str, dict[int, int]] = {}
        for row in rows_of(self._store.query(double_held_sql.OVER, bound)):
            has.setdefault(row["node"], {})[row["minute_ms"]] = row["has"]
        at = {at_ms: _windowed(has, at_ms, minutes) for at_ms in instants}
        nodes = sorted({node for of_instant in at.values() for node in of_instant})
        if not nodes:
            return
        held = self._held(nodes, bound)
        sampled = {
            (row["node"], row["job_id"], row["minute_ms"])
            for row in self._of_names(double_held_sql.SAMPLED, "nodes", nodes, **bound)
        }
        jobs = sorted({job_id for of_node in held.values() for job_id in of_node})
        began: dict[tuple[str, int], int] = {}
        about: dict[str, Mapping[str, str]] = {}
        for row in self._of_names(double_held_sql.ATTEMPTS, "jobs", jobs):
            began[row["job_id"], row["attempt"]] = row["began_ms"]
            about[row["job_id"]] = row
        for at_ms, room in at.items():
            window = range(at_ms - minutes * MINUTE_MS, at_ms, MINUTE_MS)
            for double in doubly_held(_holdings(room, held, window, began, sampled), room):
                yield finding(of, double, at_ms, about[double.job_id])

    def _held(self, nodes: Sequence[str], bound: Mapping[str, object]) -> _Held:
        held: _Held = {}
        for row in self._of_names(double_held_sql.HOLDERS, "nodes", nodes, **bound):
            minutes = held.setdefault(row["node"], {}).setdefault(row["job_id"], {})
            minutes[row["minute_ms"]] = row["last_attempt"], row["held"], row["nano"]
        return held

    def _lasting(self, jobs: Sequence[str], instants: range) -> set[tuple[str, int]]:
        """Each of these jobs, and the instants before which it was paid and not seen alive."""
        bound = {"from_ms": instants[0] - EVERY_MS - _SAMPLES_LATE_MS, "to_ms": instants[-1]}
        paid, alive = (
            {(row["job_id"], row["begin_ms"]) for row in self._of_names(sql, "jobs", jobs, **bound)}
            for sql in (double_held_sql.PAID, double_held_sql.ALIVE)
        )
        return {
            (job_id, at_ms)
            for job_id, begin_ms in paid
            for at_ms in [begin_ms + EVERY_MS]
            if (job_id, begin_ms - _SAMPLES_LATE_MS) not in alive
        }

    def _of_names(
        self, sql: str, parameter: str, names: Sequence[str], **bound: object
    ) -> Iterator[dict[str, Any]]:
        for begin in range(0, len(names), _NAMES_AT_ONCE):
            more = {**bound, parameter: names[begin : begin + _NAMES_AT_ONCE]}
            yield from rows_of(self._store.query(sql, more))


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
    began: Mapping[tuple[str, int], int],
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
                began.get((job_id, max(attempt for attempt, _, _ in rows)), 0),
                sum(nano for _, _, nano in rows),
                any((node, job_id, each) in sampled for each in window),
            )
