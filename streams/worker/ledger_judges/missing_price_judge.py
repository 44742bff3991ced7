"""Judges the rule `missing_price` at whole five minutes: reads what has no price, and steps one alert for each price missing.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.columns import rows_of
from schemas.events import MATCH_FIELDS
from streams.engine.alerts.alert import Alert
from streams.engine.ledger_rules.episodes import hourly_changes
from streams.engine.ledger_rules.known_prices import KnownBook
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.missing_price import (
    EVERY_MS,
    RULE,
    WINDOW_MS,
    MissingPrice,
    MissingPriceFinder,
    UnpricedHolder,
    UnpricedTimes,
    UnpricedUsage,
    counts,
    finding,
)
from streams.worker.ledger_judges import missing_price_sql
from streams.worker.ledger_judges.instants import instants_of
from streams.worker.ledger_judges.reader import SqlStore

#: What lacks one price: each usage, and since when in the window.
_Lacking = dict[MissingPrice, list[tuple[UnpricedUsage, int]]]


class MissingPriceJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._finder: MissingPriceFinder | None = None  # of the last book: it is the same for days

    def judge(
        self,
        of: LedgerSettings,
        firing: Sequence[Alert],
        since_ms: int,
        until_ms: int,
        books: Sequence[KnownBook],
    ) -> list[Alert]:
        """The changes at the whole five minutes in (since_ms, until_ms], by the prices known then."""
        instants = instants_of(since_ms, until_ms, EVERY_MS)
        if not instants:
            return []
        known = {(alert.subject_kind, alert.subject_name) for alert in firing}
        found = list(self._found(of, known, instants, books)) if of.enabled else []
        return hourly_changes(firing, found, instants)

    def may_find(self, of: LedgerSettings, since_ms: int, until_ms: int) -> bool:
        """Whether `judge` may find anything in the span, so that it needs its books."""
        instants = instants_of(since_ms, until_ms, EVERY_MS)
        return bool(instants) and of.enabled and self._is_there(instants[0] - WINDOW_MS, instants[-1])

    def _is_there(self, from_ms: int, to_ms: int) -> bool:
        bound = {"from_ms": from_ms, "to_ms": to_ms}
        return bool(self._store.query(missing_price_sql.IS_THERE, bound).num_rows)

    def _found(
        self,
        of: LedgerSettings,
        known: set[tuple[str, str]],
        instants: range,
        books: Sequence[KnownBook],
    ) -> Iterator[LedgerFinding]:
        unpriced = self._unpriced(of, instants[0] - WINDOW_MS, instants[-1])
        if unpriced.is_empty:
            return
        known_before, said = set(known), dict[tuple[str, str], LedgerFinding]()
        for at_ms in instants:
            finder = self._finder_at(at_ms, books)
            lacking: _Lacking = {}
            for usage, first_ms in unpriced.at(at_ms):
                lacking.setdefault(finder.missing(usage, first_ms), []).append((usage, first_ms))
            now = {(missing.kind, missing.subject) for missing in lacking}
            if now - known_before:
                holders = self._holders(at_ms)
                held = {each.usage for each in holders}
                for missing, usages in [*lacking.items()]:
                    key = missing.kind, missing.subject
                    if key in known_before:
                        continue
                    if held.isdisjoint(usage for usage, _ in usages):
                        # Its price came between the two statements: it lacks none any more.
                        del lacking[missing]
                        now.discard(key)
                        continue
                    said[key] = finding(of, finder, missing, usages, holders, at_ms)
            for missing in lacking:
                key = missing.kind, missing.subject
                # Of one that fires already only that it still holds counts.
                each = said.get(key) or LedgerFinding(RULE.name, of.severity, *key, at_ms, "", "")
                yield each._replace(at_ms=at_ms)
            known_before = now

    def _finder_at(self, at_ms: int, books: Sequence[KnownBook]) -> MissingPriceFinder:
        book = next(each.book for each in reversed(books) if each.from_ms <= at_ms)
        if self._finder is None or self._finder.book is not book:
            self._finder = MissingPriceFinder(book)
        return self._finder

    def _unpriced(self, of: LedgerSettings, from_ms: int, to_ms: int) -> UnpricedTimes:
        if not self._is_there(from_ms, to_ms):
            return UnpricedTimes({})
        bound = {"from_ms": from_ms, "to_ms": to_ms}
        rows = self._store.query(missing_price_sql.FIVE_MINUTES, bound)
        found: dict[UnpricedUsage, list[int]] = {}
        for row in rows_of(rows):
            if counts(of.thresholds, row["component"]):
                found.setdefault(_usage(row), []).extend(row["begins"])
        for row in rows_of(self._store.query(missing_price_sql.NODES, bound)):
            if counts(of.thresholds, row["component"]):
                found.setdefault(_usage(row, of_node=True), []).append(row["begin_ms"])
        return UnpricedTimes(dict(sorted(found.items(), key=lambda item: str(item[0]))))

    def _holders(self, at_ms: int) -> list[UnpricedHolder]:
        bound = {"from_ms": at_ms - WINDOW_MS, "to_ms": at_ms}
        rows = [*rows_of(self._store.query(missing_price_sql.JOBS, bound))]
        found = [UnpricedHolder(int(row["amount"]), row["job_id"], _usage(row)) for row in rows]
        rows = [*rows_of(self._store.query(missing_price_sql.NODES, bound))]
        return found + [
            UnpricedHolder(int(row["amount"]), row["node"], _usage(row, of_node=True)) for row in rows
        ]


def _usage(row: Mapping[str, Any], *, of_node: bool = False) -> UnpricedUsage:
    context = tuple(row.get(name) or None for name in MATCH_FIELDS)
    return UnpricedUsage(row["component"], row["unit"], context, of_node)
