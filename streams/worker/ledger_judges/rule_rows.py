"""The rows of what changed, alerts and what budgets have used, and how they are stored.

Rows are built on the event loop, where versions are counted, and stored in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.budget_tables import BUDGET_USE
from schemas.columns import instants, money
from schemas.durations import HOUR_MS
from schemas.tables import ALERTS, SCHEMAS
from sinks.errors import SinkBusy
from sinks.rows import Rows
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.rows import alerts_table
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.worker.ledger_judges.budget_judge import BudgetState, LedgerChanges
from streams.worker.ledger_judges.known_alerts import SHARD
from streams.worker.shards.owned_shard import OwnedShard

_GPU_HOUR: Final = HOUR_MS * 1_000


def use_table(states: Sequence[BudgetState], version: int) -> pa.Table:
    """Build rows of `budget_use`."""
    limits = [state.subject.budget.limits for state in states]
    columns: dict[str, object] = {
        "budget": [state.subject.budget.name for state in states],
        "subject_kind": [state.subject.kind for state in states],
        "subject_name": [state.subject.name for state in states],
        "per": [state.subject.budget.per for state in states],
        "period_start": instants([state.period.start_ms for state in states]),
        "period_end": instants([state.period.end_ms or 0 for state in states]),
        "match": [list(state.subject.match.items()) for state in states],
        "jobs": [[*state.subject.wanted["job_id"]] if state.subject.run else [] for state in states],
        "limit_usd": usd_column([each.usd_nano or 0 for each in limits]),
        "limit_gpu_hours": [(each.gpu_milli_ms or 0) / _GPU_HOUR for each in limits],
        "limit_wall_clock_hours": [(each.wall_clock_ms or 0) / HOUR_MS for each in limits],
        "used_usd": usd_column([state.used.usd_nano for state in states]),
        "used_gpu_hours": [state.used.gpu_milli_ms / _GPU_HOUR for state in states],
        "used_wall_clock_hours": [state.used.wall_clock_ms / HOUR_MS for state in states],
        "used_ratio": [state.ratio for state in states],
        "usd_per_hour": usd_column([state.per_hour.usd_nano for state in states]),
        "time": instants([state.at_ms for state in states]),
        "version": pa.array([version] * len(states), pa.uint64()),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS[BUDGET_USE])


def no_use_table(at_ms: int, version: int) -> pa.Table:
    """Build the row of `budget_use` that names no subject: from this minute on there is no budget."""
    none: dict[str, object] = {
        "match": [[]],
        "jobs": [[]],
        "limit_usd": usd_column([0]),
        "used_usd": usd_column([0]),
        "usd_per_hour": usd_column([0]),
    }
    none |= {name: [""] for name in ("budget", "subject_kind", "subject_name", "per")}
    none |= {name: [0.0] for name in ("limit_gpu_hours", "limit_wall_clock_hours")}
    none |= {name: [0.0] for name in ("used_gpu_hours", "used_wall_clock_hours", "used_ratio")}
    none |= {"period_start": instants([0]), "period_end": instants([0]), "time": instants([at_ms])}
    return pa.Table.from_pydict(
        {**none, "version": pa.array([version], pa.uint64())}, schema=SCHEMAS[BUDGET_USE]
    )


class RuleRows(NamedTuple):
    """Rows of one insert."""

    table: str
    rows: pa.Table
    token: str


def rows_of(owner: OwnedShard, changes: LedgerChanges) -> list[RuleRows]:
    """Build the rows of changes; what budgets have used last, as the next owner goes on after the newest minute of it."""
    found: list[RuleRows] = []
    for alerts in in_order(changes.alerts):
        version = owner.versions.next()
        rows = alerts_table(alerts, SHARD, version)
        found.append(RuleRows(ALERTS, rows, token("ledger-alerts", version, alerts)))
    states = changes.stored_states
    if states or changes.is_last_gone:
        version = owner.versions.next()
        rows = use_table(states, version) if states else no_use_table(changes.until_ms, version)
        content: list[object] = [*states] or [changes.until_ms]
        found.append(RuleRows(BUDGET_USE, rows, token(BUDGET_USE, version, content)))
    return found


class RuleRowWriter:
    """Stores rows while the group counts this worker as a member."""

    def __init__(self, store: Rows, is_member: Callable[[], bool]) -> None:
        self._store = store
        self._is_member = is_member

    def write(self, owner: OwnedShard, inserts: Sequence[RuleRows]) -> None:
        """Store in order; blocks.

        Raises:
            SinkBusy: The store refused, or another worker may own shard 0 by now.
        """
        for table, rows, name in inserts:
            self.check(owner)
            self._store.insert(table, rows, name)

    def check(self, owner: OwnedShard) -> None:
        """Raise SinkBusy where another worker may own shard 0 by now."""
        if owner.gone or not self._is_member():
            raise SinkBusy("the group has not answered for a session, another worker may own shard 0")


def in_order(alerts: Sequence[Alert]) -> list[list[Alert]]:
    """Split into inserts: an alert that changes twice has its rows in two of them."""
    parts: list[list[Alert]] = []
    seen: dict[str, int] = {}  # a long history has thousands at once
    for alert in alerts:
        part = seen.get(alert.alert_id, 0)
        seen[alert.alert_id] = part + 1
        if part == len(parts):
            parts.append([])
        parts[part].append(alert)
    return parts


def token(kind: str, version: int, content: Sequence[object]) -> str:
    """Name the rows by their version and content: a process that stored nothing may have used the version."""
    mark = hashlib.blake2b(digest_size=16)
    for each in content:
        mark.update(repr(each).encode("utf-8", "surrogatepass"))
    return f"{kind}:{version}.{mark.hexdigest()}"


def usd_column(nano: list[int]) -> pa.Array:
    """Amounts in nano-dollars as cells of a money column, those outside what it holds at its bounds."""
    return money(np.array([min(max(each, 0), MAX_COST_NANO) for each in nano], np.int64))
