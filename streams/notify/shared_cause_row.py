"""A stored alert with a cause that other alerts may share."""

from __future__ import annotations

from typing import NamedTuple

from streams.engine.ledger_rules.incidents import EXPLAINED_MS
from streams.engine.rules.incident import CLUSTER, RUN, TOGETHER_MS, stands_with
from streams.engine.rules.incident import RULE as INCIDENT


class SharedCauseRow(NamedTuple):
    """A stored alert with a cause that others may share."""

    shared_cause: str
    alert_id: str
    rule: str
    subject_kind: str
    subject_name: str
    started_ms: int
    resolved_ms: int | None
    owner: str = ""
    stood_ms: int | None = None

    @property
    def job_id(self) -> str:
        """The job that it is about, of an alert about one."""
        return self.subject_name

    def tells_of(self, began_ms: int, owner: str, stood_ms: int | None) -> bool:
        """Whether it, which is about no job, tells of an alert about a job of this owner that began then.

        A price does for a day, an incident while it lasts, one of a run to that run's owner, one of a cluster of what stands still since
        the same time (`stood_ms`).
        """
        if self.subject_kind == RUN and self.owner != owner:
            return False
        if self.rule == INCIDENT.name:
            is_open = self.resolved_ms is None or began_ms < self.resolved_ms
            if self.subject_kind == CLUSTER:
                return stands_with(stood_ms, self.stood_ms) and is_open
            return self.started_ms - TOGETHER_MS <= began_ms and is_open
        return began_ms - EXPLAINED_MS <= self.started_ms <= began_ms + TOGETHER_MS
