"""Judges the rule `empty_group` at whole minutes: reads which nodes came up and were not used, and steps one alert for each group.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.empty_group import TOGETHER_MS, EmptyNode, NodeGroup, finding, is_enough
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.worker.ledger_judges import empty_group_sql
from streams.worker.ledger_judges.instants import changes_at, instants_of
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

_SLOT_MS: Final = 5 * MINUTE_MS

#: A stretch of minutes [begin, end) without a break, and the cost of its second minute.
_Stretch = tuple[int, int, int]


class EmptyGroupJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, of: LedgerSettings, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the whole minutes in (since_ms, until_ms]."""
        return changes_at(instants_of(since_ms, until_ms, MINUTE_MS), of, firing, self._found)

    def _found(self, of: LedgerSettings, firing: Sequence[Alert], instants: range) -> Iterator[LedgerFinding]:
        began_ms = min((alert.started_ms for alert in firing), default=instants[0])
        # A minute more: a node that was there in the first one came up before.
        bound = {"from_ms": began_ms - TOGETHER_MS - MINUTE_MS, "to_ms": instants[-1]}
        by_group: dict[NodeGroup, list[EmptyNode]] = {}
        for each in self._empty(of, bound):
            by_group.setdefault(each.group, []).append(each)
        by_group = {group: nodes for group, nodes in by_group.items() if len(nodes) >= of.thresholds["nodes"]}
        if not by_group:
            return
        in_use, unplaced = (
            {(row["cluster"], row["begin_ms"]) for row in rows_of(self._store.query(sql, bound))}
            for sql in (empty_group_sql.IN_USE, empty_group_sql.UNPLACED)
        )
        opened = {alert.subject_name: alert.started_ms for alert in firing}
        for group, nodes in sorted(by_group.items()):
            opened_ms, before_ms = opened.get(group.subject), instants[0] - MINUTE_MS
            for at_ms in _instants(of, nodes, instants):
                opened_ms = opened_ms if at_ms == before_ms + MINUTE_MS else None
                before_ms = at_ms
                first_ms = (at_ms if opened_ms is None else opened_ms) - TOGETHER_MS
                empty = [each for each in nodes if first_ms <= each.begin_ms < at_ms <= each.until_ms]
                ripe = [each for each in empty if each.ripens_ms(of.thresholds) <= at_ms]
                if not is_enough(of.thresholds, ripe):
                    opened_ms = None
                elif opened_ms is not None or _is_known(group.cluster, at_ms, in_use, unplaced):
                    opened_ms = at_ms if opened_ms is None else opened_ms
                    yield finding(of, group, empty, at_ms)

    def _empty(self, of: LedgerSettings, bound: Mapping[str, int]) -> Iterator[EmptyNode]:
        """The nodes that came up in the span, and that no job used for so many minutes after that."""
        paid = {
            node: [each for each in stretches if each[0] > bound["from_ms"] // MINUTE_MS * MINUTE_MS]
            for node, stretches in _stretches(rows_of(self._store.query(empty_group_sql.PAID, bound)))
        }
        least_ms = (int(of.thresholds["minutes"]) + 1) * MINUTE_MS
        nodes = sorted(
            node
            for node, of_node in paid.items()
            if any(end - begin >= least_ms for begin, end, _ in of_node)
        )
        if len(nodes) < of.thresholds["nodes"]:
            return
        used = dict(_stretches(named_rows(self._store, empty_group_sql.USED, "nodes", nodes, **bound)))
        about = {
            row["node"]: row
            for row in named_rows(self._store, empty_group_sql.NODES, "nodes", nodes, **bound)
        }
        for node in nodes:
            row = about[node]
            group = NodeGroup(row["cluster"], row["instance_type"], row["gpu_type"])
            for begin_ms, end_ms, nano in paid[node]:
                first_ms = _first_used(used.get(node, []), begin_ms)
                until_ms = end_ms if first_ms is None else min(end_ms, first_ms)
                if until_ms - begin_ms >= least_ms:
                    yield EmptyNode(node, group, begin_ms, until_ms, nano * 60, row["team"])


def _stretches(rows: Iterator[Mapping[str, object]]) -> Iterator[tuple[str, list[_Stretch]]]:
    """Yield the stretches of each node, of rows that begin or end one."""
    found: dict[str, list[_Stretch]] = {}
    begin_ms = nano = 0
    for row in rows:
        minute_ms = int(str(row["minute_ms"]))
        if row["begins"]:
            begin_ms, nano = minute_ms, int(str(row["next_nano"]))
        if row["ends"]:
            found.setdefault(str(row["node"]), []).append((begin_ms, minute_ms + MINUTE_MS, nano))
    yield from found.items()


def _first_used(used: Sequence[_Stretch], begin_ms: int) -> int | None:
    """The first minute from `begin_ms` on in which a job held the node."""
    place = bisect_left([end for _, end, _ in used], begin_ms + 1)
    return max(used[place][0], begin_ms) if place < len(used) else None


def _is_known(
    cluster: str, at_ms: int, in_use: Collection[tuple[str, int]], unplaced: Collection[tuple[str, int]]
) -> bool:
    """Whether jobs used nodes of the cluster in the hour before, and for each of them events say which."""
    end_ms = at_ms // _SLOT_MS * _SLOT_MS
    slots = range(end_ms - TOGETHER_MS, end_ms, _SLOT_MS)
    is_used = any((cluster, slot) in in_use for slot in slots)
    return is_used and not any((each, slot) in unplaced for slot in slots for each in (cluster, ""))


def _instants(of: LedgerSettings, nodes: Sequence[EmptyNode], instants: range) -> Sequence[int]:
    """Those at which any of the nodes has been empty for long enough."""
    found: set[int] = set()
    for each in nodes:
        first_ms = max(each.ripens_ms(of.thresholds), instants[0])
        found.update(range(first_ms, min(each.until_ms, instants[-1]) + 1, MINUTE_MS))
    return sorted(found)
