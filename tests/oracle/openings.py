"""How often the rules of a job opened of late: more than three times in 3 h is flapping. Must import nothing of the project."""

from __future__ import annotations

from tests.oracle.alert import Alert
from tests.oracle.model import HOUR_MS

#: What a job pays, and that it stands still: "openings of these count together".
ONE_THING = (("burn_fast", "burn_sustained", "burn_drift"), ("idle_gpus", "stalled", "slow_progress"))


class Openings:
    """The openings of a job's rules, those meanwhile as well at which an alert stays open."""

    def __init__(self) -> None:
        self._openings: dict[str, list[int]] = {}
        self.flapping: set[str] = set()  # rules whose last opening was one too many

    def count(self, rule: str, at_ms: int) -> None:
        self._openings.setdefault(rule, []).append(at_ms)
        thing = next((each for each in ONE_THING if rule in each), (rule,))
        lately = [each for other in thing for each in self._openings.get(other, ())]
        self.flapping.discard(rule)
        if sum(at_ms - each < 3 * HOUR_MS for each in lately) > 3:
            self.flapping.add(rule)

    def stays(self, alert: Alert, at_ms: int) -> bool:
        """Whether an alert that does not hold stays open, until "1 h quiet"."""
        if alert.rule not in self.flapping:
            return False
        alert.quiet_ms = at_ms if alert.quiet_ms is None else alert.quiet_ms
        return at_ms < alert.quiet_ms + HOUR_MS

    def holds_again(self, alert: Alert, at_ms: int) -> None:
        if alert.quiet_ms is not None:
            alert.quiet_ms = None
            self.count(alert.rule, at_ms)
