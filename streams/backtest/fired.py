"""What a backtest is made of: the alerts that would have fired, and how long each job ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from streams.backtest.labels import Label
from streams.worker.ledger_judges.own_rules_judge import FailedRule

PAGE: Final = "page"
TICKET: Final = "ticket"
JOB: Final = "job"


@dataclass(frozen=True)
class RuleFile:
    """Lines to be read before the log, as if published before it; `name` says where they are from."""

    name: str
    lines: tuple[bytes, ...]


class FiredAlert(NamedTuple):
    """One episode of a rule; it fires again if the rule opens within 10 min of clearing."""

    rule: str
    severity: str
    subject_kind: str
    subject: str
    started_ms: int
    resolved_ms: int | None  # None: still firing at the end of the log
    summary: str  # of the first time it fired
    messages: int  # how often it fired without a silence; 0 where an alert about its cause tells of it, or it is usual for its kind
    silenced: int  # how often it fired under a silence
    withheld_until_ms: int = 0  # until then it was usual for its kind; 0: it never was

    @property
    def notified_ms(self) -> int:
        """When the first message was sent, if any was."""
        return max(self.started_ms, self.withheld_until_ms)


@dataclass(frozen=True)
class Backtest:
    """The outcome of one log under one set of rules; alerts are in the order in which they began."""

    rules: str  # the file of rules, '' for the defaults
    alerts: tuple[FiredAlert, ...]
    ran_ms: Mapping[str, int]  # job -> its wall-clock time
    records_in: int
    dead_lettered: int
    failed_rules: tuple[FailedRule, ...] = ()  # rules by SQL that could not be judged at some instant


class CostSpan(NamedTuple):
    """A job's time from an instant to another, ms since 1970 UTC."""

    job_id: str
    from_ms: int
    until_ms: int


#: What the job of each span cost in it, in dollars.
Costs = Callable[[Sequence[CostSpan]], Mapping[CostSpan, Decimal]]


class Detection(NamedTuple):
    """What became of a label under a rule; `cost_usd` is what the job cost from its beginning to the first alert."""

    label: Label
    first_ms: int | None  # the tick of the first alert about it; None: missed
    cost_usd: Decimal  # up to the label's end if missed

    @property
    def delay_ms(self) -> int | None:
        """The time from the label's beginning to the first alert."""
        return None if self.first_ms is None else self.first_ms - self.label.from_ms
