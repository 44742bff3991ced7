"""The episodes of the rule `oversized`: what is found opens, and clears when a job was not paid for an hour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from streams.engine.alerts.alert import Alert
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.episodes import opened
from streams.engine.rules.finding import LedgerFinding


def oversized_changes(
    firing: Mapping[str, Alert],
    found: Sequence[LedgerFinding],
    paid: Collection[tuple[str, int]],
    hours: Iterable[int],
) -> list[Alert]:
    """The changes: what is found opens, and clears at the end of the first hour in which the job was not paid.

    Args:
        firing: By job.
        found: Openings in order.
        paid: Each job, and the ends of the hours in which it was paid.
        hours: Ends of hours, ascending.
    """
    now, changes = dict(firing), list[Alert]()
    waiting = list(found)

    def open_before(at_ms: int) -> None:
        while waiting and waiting[0].at_ms < at_ms:
            each = waiting.pop(0)
            if each.subject_name not in now:
                now[each.subject_name] = opened(each)
                changes.append(now[each.subject_name])

    for at_ms in hours:
        open_before(at_ms)
        over = [job for job, row in now.items() if (job, at_ms) not in paid and row.changed_ms < at_ms]
        for job_id in over:
            changes.append(resolved(now.pop(job_id), at_ms))
    open_before(max((each.at_ms for each in waiting), default=0) + 1)
    return changes
