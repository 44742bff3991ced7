"""What a budget limits: jobs that match together, or one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streams.engine.alerts.budgets import KINDS, MATCHED, Budget
from streams.engine.state.dimensions import AlertDimensions

FLEET: Final = "fleet"
JOB: Final = "job"
#: After a failure or preemption the next attempt may come so much later.
NEXT_ATTEMPT_MS: Final = 600_000
_DONE: Final = ("completed", "cancelled")


@dataclass(frozen=True)
class Run:
    """A job with what its budget needs; instants in ms, None: not yet."""

    job_id: str
    owner: str = ""
    team: str = ""
    project: str = ""
    experiment: str = ""
    state: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    deadline_ms: int | None = None
    run_id: str = ""

    @property
    def facts(self) -> Mapping[str, str]:
        """The fields that a budget may match."""
        return {name: getattr(self, name) for name in MATCHED}

    def matches(self, match: Mapping[str, str]) -> bool:
        """Whether all match fields are the job's."""
        return all(getattr(self, name) == wanted for name, wanted in match.items())

    @property
    def over_ms(self) -> int | None:
        """Return when it is over: at its end, or when no next attempt came; None: it goes on."""
        if self.ended_ms is None:
            return None
        return self.ended_ms if self.state in _DONE else self.ended_ms + NEXT_ATTEMPT_MS


@dataclass(frozen=True)
class BudgetSubject:
    """A budget and what it limits; `run`: the one job, of a budget per run."""

    budget: Budget
    run: Run | None = None

    @property
    def kind(self) -> str:
        """The kind of an alert's subject."""
        if self.run is not None:
            return JOB
        fields = [name for name in MATCHED if name in self.budget.match]
        return KINDS.get(fields[0], fields[0]) if fields else FLEET

    @property
    def name(self) -> str:
        """The name of an alert's subject; empty: the fleet."""
        if self.run is not None:
            return self.run.job_id
        return next((self.budget.match[name] for name in MATCHED if name in self.budget.match), "")

    @property
    def match(self) -> Mapping[str, str]:
        """The match fields of its jobs."""
        return self.budget.match if self.run is None else {"job_id": self.run.job_id}

    @property
    def dimensions(self) -> AlertDimensions:
        """Who gets its alerts, and what silences match on."""
        match = self.budget.match if self.run is None else self.run.facts
        owner = self.budget.contact or match.get("owner", "")
        return AlertDimensions(
            match.get("job_id", ""),
            owner=owner,
            team=match.get("team", ""),
            project=match.get("project", ""),
            experiment=match.get("experiment", ""),
        )
