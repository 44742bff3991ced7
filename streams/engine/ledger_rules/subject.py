"""What a budget limits: jobs that match together, or one training run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams.engine.alerts.budgets import KINDS, MATCHED, Budget
from streams.engine.rules.lineage import DONE
from streams.engine.state.dimensions import AlertDimensions

FLEET: Final = "fleet"
#: The name of what a rule about all nodes is about.
ALL_NODES: Final = "nodes"
JOB: Final = "job"
#: After a failure or preemption the next attempt may come so much later.
NEXT_ATTEMPT_MS: Final = 600_000
#: Of a run of more jobs, those that go on are among so many newest ones.
_NEWEST: Final = 400


@dataclass(frozen=True)
class Run:
    """A job, or the first job of a run of several, with what its budget needs; instants in ms, None: not yet.

    `jobs`: all jobs of the run so far, the oldest first; empty: it alone.
    """

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
    jobs: tuple[str, ...] = ()

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
        return self.ended_ms if self.state in DONE else self.ended_ms + NEXT_ATTEMPT_MS


@dataclass(frozen=True)
class BudgetSubject:
    """A budget and what it limits; `run`: the one run, of a budget per run."""

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
    def jobs(self) -> tuple[str, ...]:
        """The jobs of its run, the oldest first; of a budget that is not per run there are none."""
        return () if self.run is None else self.run.jobs or (self.run.job_id,)

    @property
    def match(self) -> Mapping[str, str]:
        """The match fields of its jobs; of a run that of the first one."""
        return self.budget.match if self.run is None else {"job_id": self.run.job_id}

    @property
    def wanted(self) -> Mapping[str, Sequence[str]]:
        """The values that the match fields of its jobs may have."""
        if self.run is not None:
            return {"job_id": self.jobs[-_NEWEST:]}
        return {name: (value,) for name, value in self.budget.match.items()}

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
