"""Reads what the completed jobs of a job's kind reached, and what the job itself has reached while its alert fires, or did before.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from schemas.column_types import MILLI
from schemas.columns import rows_of, times_as_integers
from schemas.durations import HOUR_MS
from schemas.reserved import is_canary_job
from schemas.tables import ALERTS, BURN_RATES, JOB_HOURS, JOB_MINUTES, JOBS
from schemas.units import COMPONENTS, nano_of_usd
from sinks.rows import Condition, Rows
from streams.engine.alerts.alert import Alert
from streams.engine.rules.own_days import OwnDays
from streams.engine.rules.registry import BY_NAME
from streams.engine.rules.rule import JOB, FigureKind
from streams.engine.rules.similar_jobs import Similarity
from streams.engine.rules.usual_figures import (
    HISTORY_JOBS,
    HISTORY_MS,
    LEAST_JOBS,
    HourCost,
    ReachedFigure,
    UsualFigure,
    greatest_rates,
    greatest_traffic,
    history_span,
    kinds_of,
    rolling_hours,
    usual_of,
)
from streams.notify.history import pieces
from streams.notify.own_alerts import OwnAlerts
from streams.notify.usual_ratios import UsualRatios

_KNOWN_AT_MOST: Final = 1_000
_TRAFFIC: Final = ("network", "storage")
_TRAFFIC_COSTS: Final = tuple(f"{each}_cost_usd" for each in _TRAFFIC)
_ACCRUED_COSTS: Final = tuple(f"{each}_cost_usd" for each in COMPONENTS if each not in _TRAFFIC)
_INSTANTS: Final = dict.fromkeys(("time", "ended", "started", "resolved", "hour", "minute"), MILLI)


class _FigureKey(NamedTuple):
    """All that what is usual for an alert depends on."""

    job_id: str
    kind: FigureKind
    until_ms: int
    expected_nano: int  # 0 unless it is about a rate
    rule: str  # '' unless it is about the length of an alert


def figure_of(alert: Alert) -> FigureKind | None:
    """What the alert is about, of what may be usual for a kind of jobs; None: it is never withheld as usual."""
    rule = BY_NAME.get(alert.rule)
    return rule.usual_by if rule is not None and alert.subject_kind == JOB else None


def _key(alert: Alert) -> _FigureKey:
    kind = figure_of(alert)
    assert kind is not None  # others are not asked about
    expected_nano = alert.expected_nano_per_hour if kind == "rate" else 0
    rule = alert.rule if kind == "length" else ""
    return _FigureKey(alert.subject_name, kind, history_span(alert.started_ms)[1], expected_nano, rule)


class _KindHistory(NamedTuple):
    """A kind of jobs, as it was when a day began."""

    kind: Similarity
    until_ms: int


class KindFigures:
    """Call `usual` for alerts, and compare `figures` of each with its limit."""

    def __init__(self, store: Rows) -> None:
        self._store = store
        self._ratios = UsualRatios(store)
        self._own = OwnAlerts(store)
        self._known: OrderedDict[_FigureKey, UsualFigure | None] = OrderedDict()

    def usual(self, alerts: Sequence[Alert]) -> list[UsualFigure | None]:
        """What is usual for the narrowest kind of each alert's job that has a history; None: nothing.

        Each is the row of the alert's opening, or of a later change.
        """
        keys = [None if figure_of(alert) is None else _key(alert) for alert in alerts]
        asked = zip(keys, alerts, strict=True)
        fresh = {key: alert for key, alert in asked if key is not None and key not in self._known}
        self._known |= dict.fromkeys(fresh)
        try:
            self._known |= self._read([*fresh.values()])
        except BaseException:
            for key in fresh:
                self._known.pop(key, None)
            raise
        found = self._ratios.applied([None if key is None else self._known[key] for key in keys], alerts)
        while len(self._known) > _KNOWN_AT_MOST:
            self._known.popitem(last=False)
        return found

    def own_days(self, alerts: Sequence[Alert]) -> list[OwnDays | None]:
        """What is usual for each alert's job by itself, at the time of the day at which the alert opened; None: nothing."""
        return self._ratios.applied(self._own.usual(alerts), alerts)

    def figures(self, alert: Alert, kind: FigureKind, after_ms: int = 0) -> list[tuple[int, int]]:
        """The figures of the alert's job at its opening and at each stored tick while it fires, of those later than `after_ms`."""
        return sorted(self._figures(alert, kind, after_ms))

    def _read(self, alerts: Sequence[Alert]) -> Iterator[tuple[_FigureKey, UsualFigure]]:
        kinds = self._kinds_of(alerts)
        completed = self._completed(kinds, alerts)
        hours: dict[
            str, list[HourCost]
        ] = {}  # by job: a day's history has most of the jobs of the day before
        for alert in alerts:
            until_ms = history_span(alert.started_ms)[1]
            for kind in kinds.get(alert.subject_name, ()):
                of = _KindHistory(kind, until_ms)
                ended_ms = {
                    job_id: at_ms
                    for at_ms, job_id in completed.get(of, [])[-HISTORY_JOBS:]
                    if job_id != alert.subject_name
                }
                if len(ended_ms) < LEAST_JOBS:
                    continue
                key = _key(alert)
                if key.kind != "length" and (unread := [each for each in ended_ms if each not in hours]):
                    hours |= {each: [] for each in unread}
                    for hour in self._hours(unread):
                        hours[hour.job_id].append(hour)
                of_all = (hour for each in ended_ms for hour in hours.get(each, ()))
                reached = [*self._reached(key, ended_ms, of_all)]
                if usual := usual_of(reached):
                    figures = sorted((each.figure for each in reached), reverse=True)
                    yield key, UsualFigure(kind, key.kind, usual, tuple(figures))
                break

    def _kinds_of(self, alerts: Sequence[Alert]) -> dict[str, list[Similarity]]:
        """The kinds of these alerts' jobs, by job, the narrowest first."""
        found: dict[str, list[Similarity]] = {}
        for some in pieces(sorted({alert.subject_name for alert in alerts})):
            for row in self._select(JOBS, [Condition("job_id", "in", some)], "job_id", "team", "experiment"):
                found[row["job_id"]] = kinds_of(row["job_id"], row["team"], row["experiment"])
        return found

    def _completed(
        self, kinds: Mapping[str, Sequence[Similarity]], alerts: Sequence[Alert]
    ) -> dict[_KindHistory, list[tuple[int, str]]]:
        """When completed jobs of each kind ended, in order; by one look at the teams' jobs, however many kinds and days are asked for."""
        days_ms: dict[Similarity, set[int]] = {}
        for alert in alerts:
            for kind in kinds.get(alert.subject_name, ()):
                days_ms.setdefault(kind, set()).add(history_span(alert.started_ms)[1])
        every_ms = [*chain.from_iterable(days_ms.values())]
        found: dict[_KindHistory, list[tuple[int, str]]] = {}
        for some in pieces(sorted({kind.team for kind in days_ms})):
            where = [
                Condition("state", "=", "completed"),
                Condition("team", "in", some),
                Condition("ended", ">=", min(every_ms) - HISTORY_MS),
                Condition("ended", "<", max(every_ms)),
            ]
            for row in self._select(JOBS, where, "job_id", "team", "experiment", "ended"):
                if is_canary_job(row["job_id"]):
                    continue
                for kind in kinds_of(row["job_id"], row["team"], row["experiment"]):
                    for until_ms in days_ms.get(kind, ()):
                        if until_ms - HISTORY_MS <= row["ended"] < until_ms:
                            of = _KindHistory(kind, until_ms)
                            found.setdefault(of, []).append((row["ended"], row["job_id"]))
        return {of: sorted(jobs) for of, jobs in found.items()}

    def _reached(
        self, key: _FigureKey, ended_ms: Mapping[str, int], hours: Iterable[HourCost]
    ) -> Iterator[ReachedFigure]:
        """Yield what each of these jobs reached; of rates only jobs that began at about what is expected count."""
        if key.kind == "rate":
            for job_id, nano in greatest_rates(hours, key.expected_nano).items():
                if job_id in ended_ms:
                    yield ReachedFigure(ended_ms[job_id], nano)
            return
        of_length = key.kind == "length"
        figures = self._lengths(key.rule, [*ended_ms]) if of_length else greatest_traffic(hours)
        yield from (ReachedFigure(at_ms, figures.get(job_id, 0)) for job_id, at_ms in ended_ms.items())

    def _hours(self, jobs: Sequence[str]) -> Iterator[HourCost]:
        names = ("job_id", "hour", "wall_clock_ms", *_ACCRUED_COSTS, *_TRAFFIC_COSTS)
        for some in pieces(sorted(jobs)):
            for row in self._select(JOB_HOURS, [Condition("job_id", "in", some)], *names):
                yield HourCost(
                    row["job_id"],
                    row["hour"],
                    row["wall_clock_ms"],
                    sum(nano_of_usd(row[name]) for name in _ACCRUED_COSTS),
                    sum(nano_of_usd(row[name]) for name in _TRAFFIC_COSTS),
                )

    def _lengths(self, rule: str, jobs: Sequence[str]) -> dict[str, int]:
        """For how long alerts of a rule about these jobs fired, the longest of each."""
        found: dict[str, int] = {}
        for some in pieces(sorted(jobs)):
            where = [Condition("rule", "=", rule), Condition("subject_name", "in", some)]
            for row in self._select(ALERTS, where, "subject_name", "started", "resolved"):
                job_id, resolved_ms = row["subject_name"], row["resolved"]
                if resolved_ms is not None:
                    found[job_id] = max(found.get(job_id, 0), resolved_ms - row["started"])
        return found

    def _figures(self, alert: Alert, kind: FigureKind, after_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the figures of the alert's job at its opening and at stored ticks while it fires."""
        instants = self._instants(alert, after_ms)
        if kind == "length":
            yield from ((at_ms, at_ms - alert.started_ms) for at_ms in instants)
            return
        if kind == "rate":
            if alert.started_ms > after_ms:
                yield alert.started_ms, alert.opened_nano_per_hour
            yield from instants.items()
            return
        if alert.started_ms > after_ms and alert.held_ms == alert.started_ms:
            yield alert.started_ms, alert.cost_nano
        if instants:
            yield from rolling_hours(self._traffic_minutes(alert, min(instants)), instants)

    def _instants(self, alert: Alert, after_ms: int) -> dict[int, int]:
        """The stored ticks of the alert's job while it fires, later than `after_ms`, and what it paid per hour at each."""
        where = [
            Condition("job_id", "=", alert.subject_name),
            Condition("time", ">", max(after_ms, alert.started_ms)),
        ]
        if alert.resolved_ms is not None:
            where.append(Condition("time", "<", alert.resolved_ms))
        rows = self._select(BURN_RATES, where, "time", "usd_per_hour_now")
        return {row["time"]: nano_of_usd(row["usd_per_hour_now"]) for row in rows}

    def _traffic_minutes(self, alert: Alert, from_ms: int) -> dict[int, int]:
        """What the alert's job paid for traffic in each minute, from an hour before an instant on."""
        where = [
            Condition("job_id", "=", alert.subject_name),
            Condition("component", "in", [*_TRAFFIC]),
            Condition("minute", ">=", from_ms - HOUR_MS),
        ]
        found: dict[int, int] = {}
        for row in self._select(JOB_MINUTES, where, "minute", "cost_usd"):
            found[row["minute"]] = found.get(row["minute"], 0) + nano_of_usd(row["cost_usd"])
        return found

    def _select(self, table: str, where: Sequence[Condition], *columns: str) -> Iterator[dict[str, Any]]:
        """Yield rows with their instants in ms since 1970."""
        return rows_of(times_as_integers(self._store.select(table, where, columns), _INSTANTS))
