"""The tables of a run in the oracle's words, and where they differ from what must stand there.

It must not forgive anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from schemas.tables import (
    ATTEMPTS,
    DEAD_LETTERS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_MINUTES,
)
from streams.pipeline.books import Books
from tests.oracle.compute import compute
from tests.oracle.model import (
    AttemptRow,
    Counts,
    JobRow,
    LedgerKey,
    LedgerRow,
    NodeKey,
    NodeRow,
    Tables,
    UsageRow,
)
from tests.property.compare import differences
from tests.simulator.log import Log
from tests.simulator.script import Script
from tests.simulator.store import Shelf


def stored_tables(shelf: Shelf, log: Log, books: Iterable[Books]) -> Tables:
    """What the store holds."""
    found = Tables()
    for key, quantity, cost_nano, lost, lost_nano in _columns(shelf, JOB_MINUTES, _MONEY):
        if quantity:
            job_id, attempt, minute_s, *rest = key
            where = LedgerKey(minute_s // 60, job_id, attempt, *rest)
            found.ledger[where] = LedgerRow(quantity, cost_nano, lost, lost_nano)
    for key, sampled_gpu_s, productive_gpu_ms in _columns(shelf, JOB_USAGE_MINUTES, _USAGE):
        job_id, attempt, minute_s, _ = key
        so_far = found.usage.get((minute_s // 60, job_id, attempt), UsageRow(0, 0))
        found.usage[minute_s // 60, job_id, attempt] = UsageRow(
            so_far.sampled_gpu_s + sampled_gpu_s, so_far.productive_gpu_ms + productive_gpu_ms
        )
    for key, quantity, cost_nano in _columns(shelf, NODE_MINUTES, _MONEY[:2]):
        if quantity:
            node, minute_s, *rest = key
            found.nodes[NodeKey(minute_s // 60, node, *rest)] = NodeRow(quantity, cost_nano)
    for key, *values, labels, wall_clock_ms in _columns(shelf, JOBS, _JOB):
        state, attempts, *names = values
        owner, team, project, experiment = (name or None for name in names)
        said = (owner, team, project, experiment, tuple(sorted(labels)))
        found.jobs[key[0]] = JobRow(state, attempts, *said, wall_clock_ms)
    for key, state, wall_clock_ms in _columns(shelf, ATTEMPTS, ("state", "wall_clock_ms")):
        found.attempts[key] = AttemptRow(state, wall_clock_ms)
    positions = {place: index for index, place in enumerate(log.places)}
    letters = _columns(shelf, DEAD_LETTERS, ("reason",))
    found.dead = sorted((positions[key], _kind(reason)) for key, reason in letters)
    found.counts = _counts(books)
    return found


_MONEY = ("quantity", "cost_usd", "lost_quantity", "lost_cost_usd")
_USAGE = ("sampled_gpu_s", "productive_gpu_ms")
_JOB = ("state", "attempts", "owner", "team", "project", "experiment", "labels", "wall_clock_ms")


def _columns(shelf: Shelf, table: str, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """(key, the columns named) of each current row; instants and money as integers."""
    for key, (_, batch, place) in shelf.tables[table].items():
        yield (key, *(batch.column(name)[place] for name in names))


def _kind(reason: str) -> str:
    return "too_late" if reason == "too_late" else "invalid"


def _counts(books: Iterable[Books]) -> Counts:
    total = Books()
    for each in books:
        total = total.plus(each)
    assert total.balanced, total
    return Counts(total.applied, total.duplicate, total.too_late, total.dead_lettered)


def expected_tables(script: Script, log: Log, as_of_ms: int) -> Tables:
    """What the oracle says of the log."""
    tables = compute(
        log.lines,
        as_of_ms=as_of_ms,
        job_horizon_ms=script.settings.job_horizon_ms,
        late_horizon_s=script.settings.late_horizon_ms // 1000,
    )
    # Prices and controls belong to no shard, whose books are compared.
    reference = [line for line in log.lines if line.topic in ("prices", "controls")]
    refused = sum(not line.valid for line in reference)
    tables.counts.dead_lettered -= refused
    tables.counts.applied -= len(reference) - refused
    return tables


def table_differences(got: Tables, want: Tables) -> list[str]:
    """One sentence per row that differs."""
    found = differences(got, want)
    missing, surplus = set(want.dead) - set(got.dead), set(got.dead) - set(want.dead)
    found += [f"dead letter {one}: missing" for one in sorted(missing)]
    found += [f"dead letter {one}: too many" for one in sorted(surplus)]
    return found
