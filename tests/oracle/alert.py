"""One episode of a rule on a job, as the plain judge keeps it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Alert:
    """One episode of a rule on a job; figures of the longer window at the last tick at which it held."""

    rule: str
    subject: str
    started_ms: int
    resolved_ms: int | None = None
    firings: int = 1
    silenced: bool = False
    held_ms: int = 0
    window_ms: int = 0
    ratio: Fraction = Fraction(0)
    cost_nano: Fraction = Fraction(0)
    nano_per_hour: Fraction = Fraction(0)
    expected_nano_per_hour: Fraction = Fraction(0)
    changes: list[tuple[int, str]] = field(default_factory=list)  # (tick, status)
    severity: str = ""
    quiet_ms: int | None = None  # since when its rule does not hold, while it stays open because that flaps
    opened_as: str | None = None  # of rules that know what is wasted: their severity for all of the episode
    ticket_since_ms: int | None = None  # when it became so, if it began as less
    page_since_ms: int | None = None
    extra_said: Fraction = Fraction(
        0
    )  # of a burn: per hour above the expected rate, as of its last ticket or page

    @property
    def firing(self) -> bool:
        return self.resolved_ms is None

    @property
    def status(self) -> str:
        return "firing" if self.firing else "resolved"

    @property
    def alert_id(self) -> str:
        """By the contract: "deterministic from (rule, subject, start of the episode)"."""
        words = f"{self.rule}|job|{self.subject}|{self.started_ms}"
        return "al_" + hashlib.sha256(words.encode()).hexdigest()[:24]
