"""The instants at which a rule on the ledger is judged, and the changes of its alerts at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.rules.finding import LedgerFinding, LedgerSettings

#: Where a rule holds at some instants, of which there is one at least; the alerts are those of it that fire.
Find = Callable[[LedgerSettings, Sequence[Alert], range], Iterable[LedgerFinding]]


def instants_of(since_ms: int, until_ms: int, every_ms: int) -> range:
    """The multiples of `every_ms` in (since_ms, until_ms]."""
    return range(since_ms // every_ms * every_ms + every_ms, until_ms + 1, every_ms)


def changes_at(instants: range, of: LedgerSettings, firing: Sequence[Alert], find: Find) -> list[Alert]:
    """The changes at these instants; a rule that is off holds nowhere."""
    if not instants:
        return []
    return hourly_changes(firing, find(of, firing, instants) if of.enabled else (), instants)
