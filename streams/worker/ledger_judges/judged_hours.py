"""How far the rules by the hour are judged, and by which controls: nothing is judged before all shards have stored it."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS
from sinks.port import Store
from streams.engine.ledger_rules.known_prices import KnownPrices
from streams.engine.ledger_rules.price_jumps import PriceJumps
from streams.engine.reference_log import ReferenceView
from streams.worker.ledger_judges.control_spans import ControlSpans
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.own_rules_judge import Ask, OwnRulesJudge
from streams.worker.ledger_judges.rule_rows import RuleRowWriter
from streams.worker.shards.owned_shard import OwnedShard

HOURS_KEY: Final = "hours_judged_ms"
#: Earlier hours are not judged any more.
BACK_MS: Final = 48 * HOUR_MS


class HourlyJudge:
    """The judge of one owner of shard 0, and the last minute that it has judged; the calls block."""

    def __init__(self, store: Store, known_alerts: KnownAlerts, view: ReferenceView, ask: Ask) -> None:
        self.judge = FleetJudge(store, known_alerts)
        self.own = OwnRulesJudge(store, known_alerts, ask)
        self.spans = ControlSpans(view)
        self.prices = PriceJumps(view.again())
        self.known_prices = KnownPrices(view.again())
        self.judged_ms: int | None = None
        self._meta = store.meta
        self._kept_ms: int | None = None

    def since_ms(self, until_ms: int) -> int:
        """The minute after which to judge: where this owner, or the one before it, has stopped; else the last hour."""
        if self.judged_ms is None:
            known = self._meta.get(HOURS_KEY)
            self._kept_ms = None if known is None else int(known)
            self.judged_ms = until_ms - HOUR_MS if self._kept_ms is None else self._kept_ms
        self.judged_ms = max(self.judged_ms, until_ms - BACK_MS, 0)
        return self.judged_ms

    def keep(self, writer: RuleRowWriter, owner: OwnedShard) -> None:
        """Store the last whole hour that was judged, for the next owner.

        Raises:
            SinkError: The store could not be written, or another worker may own shard 0.
        """
        hour_ms = (self.judged_ms or 0) // HOUR_MS * HOUR_MS
        if hour_ms > (self._kept_ms or 0):
            writer.check(owner)
            self._meta.put(HOURS_KEY, str(hour_ms))
            self._kept_ms = hour_ms
