"""Judges the rules by the hour of successive spans, beside a meter and in a replay alike, and says where to begin."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS
from sinks.port import Store
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.ledger_rules.known_prices import KnownPrices
from streams.engine.ledger_rules.price_jumps import PriceJumps
from streams.engine.reference_log import ReferenceView
from streams.threads import Threads
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.own_rules_judge import OwnRulesJudge
from streams.worker.ledger_judges.rule_rows import RuleRowWriter
from streams.worker.shards.owned_shard import OwnedShard

HOURS_KEY: Final = "hours_judged_ms"
BEGIN_KEY: Final = "log_begin_ms"


class HourlyJudge:
    """Call `judge` and `judge_own` with spans in order."""

    def __init__(
        self,
        store: Store,
        known_alerts: KnownAlerts,
        own: OwnRulesJudge,
        view: ReferenceView,
        threads: Threads,
    ) -> None:
        """`own`: of rules by SQL; `view`: prices by log time, at the beginning of the log; `threads` read the store."""
        self.fleet = FleetJudge(store, known_alerts)
        self.own = own
        self._jumps = PriceJumps(view)
        self._prices = KnownPrices(view.again())
        self._threads = threads

    async def judge(self, controls: Controls, span: Minutes) -> list[Alert]:
        """The changes of the shipped rules, by the prices that were known in the span."""
        jumps = self._jumps.between(controls, *span)
        needs_books = await self._threads.run(self.fleet.lacks_prices, controls, *span)
        books = self._prices.between(*span) if needs_books else []
        return await self._threads.run(self.fleet.judge, controls, *span, jumps, books)

    async def judge_own(self, controls: Controls, span: Minutes) -> list[Alert]:
        """The changes of the rules by SQL. Call it once those of the shipped rules are stored: these statements take time."""
        return await self._threads.run(self.fleet.judge_own, self.own, controls, *span)


class JudgedHours:
    """The last minute whose rules by the hour one owner of shard 0 has judged, and where the first one begins; the calls block."""

    def __init__(self, store: Store) -> None:
        self.judged_ms: int | None = None
        #: The hour in which the log begins; None: nobody knows.
        self.begin_ms: int | None = None
        self._meta = store.meta
        self._kept_ms: int | None = None

    def begin(self, writer: RuleRowWriter, owner: OwnedShard, begun_ms: int | None) -> None:
        """Learn where the log begins, and store it for the next owner, as long as no hour has been judged.

        The next owner restores shards that this one has read, and no longer sees their first record.

        `begun_ms`: the log time of the first record that was read here, if nobody has read the log before.

        Raises:
            SinkError: The store could not be read or written, or another worker may own shard 0.
        """
        if self.stopped_ms() is not None:
            return
        if self.begin_ms is None and (kept := self._meta.get(BEGIN_KEY)) is not None:
            self.begin_ms = int(kept)
        if begun_ms is None or (self.begin_ms is not None and self.begin_ms <= begun_ms):
            return
        hour_ms = begun_ms // HOUR_MS * HOUR_MS
        writer.check(owner)
        self._meta.put(BEGIN_KEY, str(hour_ms))
        self.begin_ms = hour_ms

    def stopped_ms(self) -> int | None:
        """The whole hour at which this owner, or the one before it, stopped; None: there was none."""
        if self._kept_ms is None:
            kept = self._meta.get(HOURS_KEY)
            self._kept_ms = None if kept is None else int(kept)
        return self._kept_ms

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
