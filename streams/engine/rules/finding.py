"""What a rule on the stored ledger found: it holds for a subject, with the sentence and the evidence of an opening."""

from __future__ import annotations

from typing import NamedTuple

from streams.engine.rules.rule import Margin


class LedgerFinding(NamedTuple):
    """A rule holds for a subject in the hour that ends at `at_ms`, or at that instant."""

    rule: str
    severity: str
    subject_kind: str
    subject_name: str
    at_ms: int
    summary: str
    evidence_sql: str
    ratio: float = 0.0
    usd_nano_per_hour: int = 0
    cost_nano: int = 0
    owner: str = ""
    team: str = ""
    project: str = ""
    shared_cause: str = ""
    margins: tuple[Margin, ...] = ()  # how far it was beyond its thresholds when it opened
    stood_ms: int | None = None  # since when the first of the jobs of an incident stands still

    @property
    def subject(self) -> tuple[str, str, str]:
        """Return what an episode belongs to."""
        return self.rule, self.subject_kind, self.subject_name


class LedgerSettings(NamedTuple):
    """The settings of a rule on the ledger."""

    enabled: bool
    severity: str
    thresholds: dict[str, float]
