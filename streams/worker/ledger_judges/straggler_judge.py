"""Looks at whole five minutes where the rule `straggler` holds: reads what the nodes of jobs did.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.interactive import is_interactive
from streams.engine.rules.rule import wastes_enough
from streams.engine.rules.straggler import (
    FIGURE_SLOTS,
    LAG_MS,
    LOOKBACK_SLOTS,
    NAME,
    SLOT_MS,
    SPINS,
    JobSlots,
    NodeUse,
    Uneven,
    finding,
)
from streams.worker.ledger_judges import job_use_sql
from streams.worker.ledger_judges.job_use import AlertedJobs, IsExplained, Look, nothing
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore


class StragglerJudge:
    """Call `look` for successive spans."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def look(self, of: LedgerSettings, firing: Sequence[Alert], instants: range) -> Look:
        """Read what is needed for these instants; what is returned is to be called for each of them, in order."""
        opened = {alert.subject_name for alert in firing}
        jobs = sorted(opened | self._candidates(of, instants))
        if not jobs:
            return nothing
        bound = {
            "from_ms": instants[0] - LAG_MS - 2 * LOOKBACK_SLOTS * SLOT_MS,
            "to_ms": instants[-1] - LAG_MS,
        }
        use = self._use(jobs, bound)
        paid = _Paid(self._store, jobs, bound)
        known = AlertedJobs(self._store, jobs)
        slots = {job_id: JobSlots(use.get(job_id, {}), of.thresholds) for job_id in jobs}

        def found(at_ms: int, is_explained: IsExplained) -> Iterator[LedgerFinding]:
            last = at_ms // SLOT_MS - 1
            for job_id in jobs:
                if job_id in opened and slots[job_id].goes_on(last):
                    yield LedgerFinding(NAME, of.severity, "job", job_id, at_ms, "", "")
                    continue
                opened.discard(job_id)
                uneven = slots[job_id].uneven(last)
                if uneven is None:
                    continue
                since_ms = at_ms - LAG_MS - round(of.thresholds["minutes"] * MINUTE_MS)
                if is_explained(job_id, since_ms) or known.stood(job_id, at_ms, since_ms):
                    continue
                if is_interactive(known.labels(job_id)):
                    continue
                waste = paid.waste_nano(job_id, last, uneven, len(use[job_id][last]))
                if wastes_enough(waste, of.thresholds):
                    opened.add(job_id)
                    yield finding(of, job_id, uneven, waste, at_ms, known.about(job_id))

        return found

    def _candidates(self, of: LedgerSettings, instants: range) -> set[str]:
        """The jobs whose nodes were uneven for so long without a break."""
        least = -(-int(min(of.thresholds["minutes"], of.thresholds["unsure_minutes"]) * MINUTE_MS) // SLOT_MS)
        bound = {
            "from_ms": instants[0] - LAG_MS - least * SLOT_MS,
            "to_ms": instants[-1] - LAG_MS,
            "others_ratio": of.thresholds["others_ratio"],
            "share_of_others": of.thresholds["share_of_others"],
            **{name: SPINS[name] for name in ("sm_ratio", "tensor_ratio", "power_ratio")},
        }
        slots: dict[str, set[int]] = {}
        for row in rows_of(self._store.query(job_use_sql.UNEVEN, bound)):
            slots.setdefault(row["job_id"], set()).add(row["slot"])
        return {job_id for job_id, numbers in slots.items() if _longest(sorted(numbers)) >= least}

    def _use(self, jobs: Sequence[str], bound: Mapping[str, int]) -> dict[str, dict[int, dict[str, NodeUse]]]:
        """What the nodes of each job did by slot, of the newest attempt in it."""
        found: dict[str, dict[int, tuple[int, dict[str, NodeUse]]]] = {}
        for row in named_rows(self._store, job_use_sql.BY_NODE, "jobs", jobs, **bound):
            of_job = found.setdefault(row["job_id"], {})
            attempt, nodes = of_job.get(row["slot"], (-1, {}))
            if row["attempt"] > attempt:
                attempt, nodes = row["attempt"], {}
            if row["attempt"] == attempt:
                nodes[row["node"]] = NodeUse(*(row[name] for name in NodeUse._fields))
            of_job[row["slot"]] = attempt, nodes
        return {
            job_id: {slot: nodes for slot, (_, nodes) in of_job.items()} for job_id, of_job in found.items()
        }


class _Paid:
    """What jobs paid for the GPUs of their nodes."""

    def __init__(self, store: SqlStore, jobs: Sequence[str], bound: Mapping[str, int]) -> None:
        self._nano: dict[tuple[str, int], dict[str, int]] = {}
        for row in named_rows(store, job_use_sql.PAID, "jobs", jobs, **bound):
            of_slot = self._nano.setdefault((row["job_id"], row["slot"]), {})
            of_slot[row["node"]] = row["nano"]

    def waste_nano(self, job_id: str, last: int, uneven: Uneven, nodes: int) -> int:
        """What is wasted per hour, by what was paid in the last quarter of an hour; what no node is named for, in equal parts."""
        slots = [
            of_slot
            for number in range(last - FIGURE_SLOTS + 1, last + 1)
            if (of_slot := self._nano.get((job_id, number)))
        ]
        if not slots:
            return 0
        share = sum(of_slot.get("", 0) for of_slot in slots) / nodes
        slow = sum(of_slot.get(node, 0) for of_slot in slots for node in uneven.slow)
        others = sum(
            nano for of_slot in slots for node, nano in of_slot.items() if node and node not in uneven.slow
        )
        per_hour = HOUR_MS / (len(slots) * SLOT_MS)
        return uneven.waste_nano(
            round((slow + share * len(uneven.slow)) * per_hour),
            round((others + share * uneven.others) * per_hour),
        )


def _longest(numbers: Sequence[int]) -> int:
    """The longest run of successive numbers."""
    longest = run = min(len(numbers), 1)
    for before, number in pairwise(numbers):
        run = run + 1 if number == before + 1 else 1
        longest = max(longest, run)
    return longest
