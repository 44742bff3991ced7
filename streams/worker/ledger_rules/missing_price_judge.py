"""Judges the rule `missing_price` at whole five minutes: reads what has no price, and steps one alert for each price missing.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.columns import rows_of
from schemas.events import MATCH_FIELDS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.evidence import quoted
from streams.engine.alerts.formatting import sentence, short
from streams.engine.ledger_rules.fleet_rules import MISSING_PRICE, FleetSettings, HourFinding, hourly_changes
from streams.engine.ledger_rules.known_prices import KnownBook
from streams.engine.ledger_rules.missing_price import (
    EVERY_MS,
    WINDOW_MS,
    MissingPrice,
    MissingPriceFinder,
    UnpricedTimes,
    UnpricedUsage,
)
from streams.engine.pricing.context import GPU_TYPE
from streams.worker.ledger_rules import missing_price_sql
from streams.worker.ledger_rules.reader import SqlStore

_GPU: Final = "gpu"
_MILLI_MS_PER_HOUR: Final = 3_600_000_000
#: Enough to see which jobs they are.
_SHOWN: Final = 50
_FIELDS_SHOWN: Final = 3

#: What lacks one price: each usage, and since when in the window.
_Lacking = dict[MissingPrice, list[tuple[UnpricedUsage, int]]]


class _UnpricedJob(NamedTuple):
    """How much a job had without a price."""

    amount: int
    job_id: str
    usage: UnpricedUsage


class MissingPriceJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._finder: MissingPriceFinder | None = None  # of the last book: it is the same for days

    def judge(
        self,
        of: FleetSettings,
        firing: Sequence[Alert],
        since_ms: int,
        until_ms: int,
        books: Sequence[KnownBook],
    ) -> list[Alert]:
        """Return the changes at the whole five minutes in (since_ms, until_ms], by the prices known then."""
        instants = _instants(since_ms, until_ms)
        if not instants:
            return []
        known = {(alert.subject_kind, alert.subject_name) for alert in firing}
        found = list(self._found(of, known, instants, books)) if of.enabled else []
        return hourly_changes(firing, found, instants)

    def may_find(self, of: FleetSettings, since_ms: int, until_ms: int) -> bool:
        """Return whether `judge` may find anything in the span, so that it needs its books."""
        instants = _instants(since_ms, until_ms)
        return bool(instants) and of.enabled and self._is_there(instants[0] - WINDOW_MS, instants[-1])

    def _is_there(self, from_ms: int, to_ms: int) -> bool:
        bound = {"from_ms": from_ms, "to_ms": to_ms}
        return bool(self._store.query(missing_price_sql.IS_THERE, bound).num_rows)

    def _found(
        self,
        of: FleetSettings,
        known: set[tuple[str, str]],
        instants: range,
        books: Sequence[KnownBook],
    ) -> Iterator[HourFinding]:
        unpriced = self._unpriced(of, instants[0] - WINDOW_MS, instants[-1])
        if unpriced.is_empty:
            return
        known_before, said = set(known), dict[tuple[str, str], HourFinding]()
        for at_ms in instants:
            finder = self._finder_at(at_ms, books)
            lacking: _Lacking = {}
            for usage, first_ms in unpriced.at(at_ms):
                lacking.setdefault(finder.missing(usage, first_ms), []).append((usage, first_ms))
            now = {(missing.kind, missing.subject) for missing in lacking}
            if now - known_before:
                jobs = self._jobs(at_ms)
                for missing, usages in lacking.items():
                    key = missing.kind, missing.subject
                    if key not in known_before:
                        said[key] = _finding(of, finder, missing, usages, jobs, at_ms)
            for missing in lacking:
                key = missing.kind, missing.subject
                # Of one that fires already only that it still holds counts.
                each = said.get(key) or HourFinding(MISSING_PRICE, of.severity, *key, at_ms, "", "")
                yield each._replace(at_ms=at_ms)
            known_before = now

    def _finder_at(self, at_ms: int, books: Sequence[KnownBook]) -> MissingPriceFinder:
        book = next(each.book for each in reversed(books) if each.from_ms <= at_ms)
        if self._finder is None or self._finder.book is not book:
            self._finder = MissingPriceFinder(book)
        return self._finder

    def _unpriced(self, of: FleetSettings, from_ms: int, to_ms: int) -> UnpricedTimes:
        if not self._is_there(from_ms, to_ms):
            return UnpricedTimes({})
        bound = {"from_ms": from_ms, "to_ms": to_ms}
        rows = self._store.query(missing_price_sql.FIVE_MINUTES, bound)
        has_traffic = bool(of.thresholds["traffic"])
        found: dict[UnpricedUsage, list[int]] = {}
        for row in rows_of(rows):
            if has_traffic or row["component"] == _GPU:
                found.setdefault(_usage(row), []).extend(row["begins"])
        return UnpricedTimes(dict(sorted(found.items(), key=lambda item: str(item[0]))))

    def _jobs(self, at_ms: int) -> list[_UnpricedJob]:
        bound = {"from_ms": at_ms - WINDOW_MS, "to_ms": at_ms}
        rows = [*rows_of(self._store.query(missing_price_sql.JOBS, bound))]
        return [_UnpricedJob(int(row["amount"]), row["job_id"], _usage(row)) for row in rows]


def _instants(since_ms: int, until_ms: int) -> range:
    """Return the whole five minutes of (since_ms, until_ms]."""
    return range(since_ms // EVERY_MS * EVERY_MS + EVERY_MS, until_ms + 1, EVERY_MS)


def _usage(row: Mapping[str, Any]) -> UnpricedUsage:
    return UnpricedUsage(row["component"], row["unit"], tuple(row[name] or None for name in MATCH_FIELDS))


def _finding(
    of: FleetSettings,
    finder: MissingPriceFinder,
    missing: MissingPrice,
    usages: Sequence[tuple[UnpricedUsage, int]],
    jobs: Sequence[_UnpricedJob],
    at_ms: int,
) -> HourFinding:
    first = dict(usages)
    amounts: dict[str, int] = {}
    for each in jobs:
        if each.usage in first:
            amounts[each.job_id] = amounts.get(each.job_id, 0) + each.amount
    ordered = sorted(amounts, key=lambda job_id: (-amounts[job_id], job_id))
    # The usage of which there is most stands for the others: all lack the same fields.
    usage = min(
        (each for each in jobs if each.usage in first),
        key=lambda each: (each.job_id != ordered[0], -each.amount, str(each.usage)),
    ).usage
    mend = finder.mend(usage, first[usage])
    about = _gpus(finder, missing, usage, first[usage]) if usage.component == _GPU else _traffic(usage)
    count = f"{len(ordered)} job{'s' if len(ordered) > 1 else ''}"
    most = f", {amounts[ordered[0]] / _MILLI_MS_PER_HOUR:.3g} GPU-h" if usage.component == _GPU else ""

    def said(at_most: int) -> str:
        return f"{count} (most: {short(ordered[0], at_most)}{most}): no price for {about(at_most)}"

    command = "" if mend is None else mend.command
    summary = sentence(said, command)
    if not command or not summary.endswith(command):
        what = "its evidence has the command" if command else "let their events name price fields"
        summary = sentence(lambda at_most: f"{said(at_most)}; {what}")
    return HourFinding(
        MISSING_PRICE,
        of.severity,
        missing.kind,
        missing.subject,
        at_ms,
        summary,
        _evidence(ordered, at_ms, command),
        float(len(ordered)),
    )


def _gpus(
    finder: MissingPriceFinder, missing: MissingPrice, usage: UnpricedUsage, first_ms: int
) -> Callable[[int], str]:
    """Return what says the type of GPU and the nearest price, by how long names may be."""
    nearest, gpu_type = finder.nearest(usage, first_ms), usage.context[GPU_TYPE] or ""
    values = dict(zip(MATCH_FIELDS, usage.context, strict=True))

    def said(at_most: int) -> str:
        what = short(gpu_type, at_most) if gpu_type else "GPUs whose events name no gpu_type"
        if nearest is None:
            return f"{what}, nor any other GPU"
        sku = short(nearest.event.sku, at_most)
        if missing.fields == ("names",):
            return f"{what}: those for other names of it, as {sku}, differ"
        if len(nearest.fields) == 1 and not nearest.is_later:
            (name,) = nearest.fields
            wants, has = nearest.event.match[name], values[name] or "none"
            return f"{what}, nearest {sku} is for {name} {short(wants, at_most)} (not {short(has, at_most)})"
        names = (*nearest.fields, *(["time"] if nearest.is_later else []))
        more = ", ..." if len(names) > _FIELDS_SHOWN else ""
        return f"{what}, nearest {sku} differs in {', '.join(names[:_FIELDS_SHOWN])}{more}"

    return said


def _traffic(usage: UnpricedUsage) -> Callable[[int], str]:
    return lambda _: f"{usage.component} traffic in {usage.unit}, 0 if it is free"


def _evidence(jobs: Sequence[str], at_ms: int, command: str) -> str:
    """Return SQL for the jobs and the price fields that they had, with the command that mends it."""
    names = ", ".join(quoted(job_id) for job_id in jobs[:_SHOWN])
    return (
        "SELECT l.job_id AS job_id, l.component AS component, l.unit AS unit, l.cloud AS cloud, l.region AS region,"  # noqa: S608 - quoted() escapes the names
        " l.cluster AS cluster, l.instance_type AS instance_type, l.gpu_type AS gpu_type, l.purchase AS purchase,"
        f" l.path AS path, l.op AS op, sum(l.quantity) AS quantity, {quoted(command)} AS mend"
        f" FROM ledger AS l WHERE l.job_id IN ({names}) AND l.component IN ('gpu', 'network', 'storage') AND l.sku = ''"
        f" AND l.minute >= toDateTime({(at_ms - WINDOW_MS) // 1000:d}, 'UTC') GROUP BY ALL ORDER BY job_id, component, unit"
    )
