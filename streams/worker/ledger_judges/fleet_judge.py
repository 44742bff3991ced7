"""Judges the rules across jobs that go by the hour: reads the hours in which they hold, and steps their episodes.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from schemas.columns import rows_of, values_of
from schemas.durations import HOUR_MS
from sinks.port import Store
from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.ledger_rules.episodes import hourly_changes, opened
from streams.engine.ledger_rules.flapping import as_judged, changed_ms
from streams.engine.ledger_rules.known_prices import KnownBook
from streams.engine.ledger_rules.price_jumps import jump_changes
from streams.engine.ledger_rules.quiet_hours import QuietHours
from streams.engine.rules import (
    clock_ahead,
    empty_group,
    forgotten_node,
    incident,
    missing_price,
    not_understood,
    oversized,
    price_jump,
    resubmit_loop,
    retry_overhead,
    silent_source,
    team_burn,
    team_ceiling,
    unusual_length,
)
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.hourly_sql import AHEAD, GROUPS, IS_THERE, TWICE
from streams.engine.rules.oversized import EVERY_MS
from streams.engine.rules.price_jump import PriceJump
from streams.engine.rules.registry import HOURLY_RULES, LEDGER_RULES
from streams.engine.rules.rule import HourlyRule
from streams.engine.state.dimensions import AlertDimensions
from streams.worker.ledger_judges.ahead_jobs import ahead_jobs
from streams.worker.ledger_judges.clock_ahead_judge import ClockAheadJudge
from streams.worker.ledger_judges.empty_group_judge import EmptyGroupJudge
from streams.worker.ledger_judges.flapping_alerts import FlappingAlerts, RowsOfChanges
from streams.worker.ledger_judges.held_jobs_judge import RULES as HELD_JOBS_RULES
from streams.worker.ledger_judges.held_jobs_judge import HeldJobsJudge
from streams.worker.ledger_judges.incident_judge import IncidentJudge
from streams.worker.ledger_judges.job_use_judge import RULES as JOB_USE_RULES
from streams.worker.ledger_judges.job_use_judge import JobUseJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.missing_price_judge import MissingPriceJudge
from streams.worker.ledger_judges.named_episodes import named_episodes
from streams.worker.ledger_judges.oversized_judge import OversizedJudge
from streams.worker.ledger_judges.own_rules_judge import OwnRulesJudge
from streams.worker.ledger_judges.price_use import price_uses
from streams.worker.ledger_judges.quiet_hours_sql import quiet_hours
from streams.worker.ledger_judges.resubmit_judge import ResubmitJudge
from streams.worker.ledger_judges.retry_overhead_judge import retry_overheads
from streams.worker.ledger_judges.silent_source_judge import SilentSourceJudge
from streams.worker.ledger_judges.source_judge import SourceJudge
from streams.worker.ledger_judges.team_ceiling_judge import TeamCeilingJudge
from streams.worker.ledger_judges.unusual_length_judge import unusual_lengths

#: Rules whose alerts change at whole hours.
_BY_HOUR: Final = (*(rule.name for rule in HOURLY_RULES), team_burn.RULE.name, unusual_length.NAME)


class FleetJudge:
    """Call `judge` for successive spans of minutes; it looks at the hours that end in them, for some rules at five minutes."""

    def __init__(self, store: Store, known_alerts: KnownAlerts) -> None:
        self._store = store
        self._known_alerts = known_alerts
        self._oversized = OversizedJudge(store)
        self._missing_price = MissingPriceJudge(store)
        self._held_jobs = HeldJobsJudge(store)
        self._empty_group = EmptyGroupJudge(store)
        self._of_sources: Mapping[str, SourceJudge | ClockAheadJudge | SilentSourceJudge] = {
            not_understood.RULE.name: SourceJudge(store),
            clock_ahead.RULE.name: ClockAheadJudge(store),
            silent_source.RULE.name: SilentSourceJudge(store),
        }
        self._incidents = IncidentJudge(store)
        self._team_ceiling = TeamCeilingJudge(store)
        self._job_use = JobUseJudge(store)
        self._resubmit = ResubmitJudge(store)

    def judge(
        self,
        controls: Controls,
        since_ms: int,
        until_ms: int,
        jumps: Sequence[PriceJump],
        books: Sequence[KnownBook],
    ) -> list[Alert]:
        """The changes at the whole hours of (since_ms, until_ms], of some rules also at five minutes between them.

        What is stored of them already is left out: a new owner may judge hours again.

        Args:
            controls: The controls in force.
            since_ms: The last minute that was judged.
            until_ms: The last minute to judge.
            jumps: The prices that may have jumped in these minutes, as they were known then.
            books: The prices that were known at the whole five minutes of the span; not needed unless it `lacks_prices`.
        """
        self._known_alerts.read_firing()
        span = since_ms, until_ms
        rows = FlappingAlerts(self._store, self._known_alerts, controls, span).rows
        known = partial(self._known, controls=controls)
        name = oversized.RULE.name
        changes = rows(self._oversized.judge(*known(name), *span, controls), name)
        name = missing_price.RULE.name
        changes += rows(self._missing_price.judge(*known(name), *span, books), name)
        held = self._held_jobs.judge(controls.fleet_rules, self._firing(HELD_JOBS_RULES), *span)
        changes += rows(held, *HELD_JOBS_RULES)
        changes += self._about_sources(rows, controls, *span)
        name = price_jump.RULE.name
        jumped = rows(self._price_jumps(*known(name), jumps, until_ms), name)
        changes += jumped
        name = incident.RULE.name
        changes += rows(self._incidents.judge(*known(name), jumped, span, controls.operators), name)
        name = empty_group.NAME
        changes += rows(self._empty_group.judge(*known(name), *span), name)
        name = team_ceiling.NAME
        changes += rows(self._team_ceiling.judge(controls, self._firing((name,)), *span), name)
        changes += rows(self._job_use.judge(known, *span, controls), *JOB_USE_RULES)
        name = resubmit_loop.NAME
        changes += rows(self._resubmit.judge(*known(name), *span), name)
        named = [*changes]
        changes += rows(self._by_hour(controls, named, *span), *_BY_HOUR)
        name = retry_overhead.NAME
        changes += rows(retry_overheads(self._store, *known(name), named, *span), name)
        return self._new(changes, controls)

    def _by_hour(
        self, controls: Controls, named: Sequence[Alert], since_ms: int, until_ms: int
    ) -> list[Alert]:
        """The changes of the rules that are judged at whole hours; `named`: what the others tell in the span."""
        others, changes = self._firing(_BY_HOUR), list[Alert]()
        begin_ms, end_ms = (at_ms // HOUR_MS * HOUR_MS for at_ms in (since_ms, until_ms))
        # Before the next hour ends, in whatever spans these minutes are judged.
        if since_ms // EVERY_MS < min(until_ms, begin_ms + HOUR_MS - 1) // EVERY_MS:
            episodes = self._episodes(named, begin_ms - HOUR_MS, begin_ms)
            changes = self._forgotten_before(controls, others, begin_ms, episodes)
            others = others + changes
        if begin_ms < end_ms:
            episodes = self._episodes(named, begin_ms, end_ms)
            found = self._found(controls, {"from_ms": begin_ms, "to_ms": end_ms, **episodes})
            quiet = self._quiet_hours(controls, [*others, *found], begin_ms, end_ms)
            hours = range(begin_ms + HOUR_MS, end_ms + 1, HOUR_MS)
            changes = changes + hourly_changes(others, found, hours, quiet.goes_on)
        return changes

    def _quiet_hours(
        self, controls: Controls, of: Iterable[Alert | LedgerFinding], begin_ms: int, end_ms: int
    ) -> QuietHours:
        """What is known of the jobs of a rule that is judged only by hours in which a job ran."""
        is_on = settings_of(unusual_length.NAME, controls.fleet_rules).enabled
        jobs = sorted({each.subject_name for each in of if is_on and each.rule == unusual_length.NAME})
        return quiet_hours(self._store, jobs, begin_ms, end_ms)

    def _episodes(self, changes: Iterable[Alert], from_ms: int, to_ms: int) -> dict[str, object]:
        """When alerts stood that name the cause of others, as parameters of the rules by the hour."""
        known = [*changes]
        found = {
            **named_episodes(self._store, (empty_group.NAME,), GROUPS, known, from_ms, to_ms),
            **named_episodes(self._store, HELD_JOBS_RULES, TWICE, known, from_ms, to_ms),
        }
        of_sources = named_episodes(self._store, (clock_ahead.RULE.name,), AHEAD, known, from_ms, to_ms)
        clocks = [*zip(*(of_sources[name] for name in AHEAD), strict=True)]
        spans = ahead_jobs(self._store, clocks, from_ms, to_ms)
        return {**found, **{name: [span[place] for span in spans] for place, name in enumerate(AHEAD)}}

    def _firing(self, rules: Collection[str]) -> list[Alert]:
        """The alerts of these rules that hold, as their judges know them."""
        return as_judged(alert for alert in self._known_alerts.firing() if alert.rule in rules)

    def _known(self, rule: str, controls: Controls) -> tuple[LedgerSettings, list[Alert]]:
        """The settings of a rule, and its alerts that hold."""
        return settings_of(rule, controls.fleet_rules), self._firing((rule,))

    def _price_jumps(
        self, of: LedgerSettings, before: Sequence[Alert], jumps: Sequence[PriceJump], until_ms: int
    ) -> list[Alert]:
        found = (
            price_jump.finding(of, jump, use)
            for jump, use in price_uses(self._store, jumps)
            if price_jump.holds(jump, use, of.thresholds)
        )
        return jump_changes(before, found, until_ms)

    def judge_sources(
        self, controls: Controls, since_ms: int, until_ms: int, rules: Collection[str] | None = None
    ) -> list[Alert]:
        """The changes of the rules about sources alone, which need no ledger: where nothing of them is metered there may be none.

        `rules`: of these alone; None: of all.
        """
        self._known_alerts.read_firing()
        rows = FlappingAlerts(self._store, self._known_alerts, controls, (since_ms, until_ms)).rows
        return self._new(self._about_sources(rows, controls, since_ms, until_ms, rules), controls)

    def _about_sources(
        self,
        rows: RowsOfChanges,
        controls: Controls,
        since_ms: int,
        until_ms: int,
        rules: Collection[str] | None = None,
    ) -> list[Alert]:
        found: list[Alert] = []
        for rule, judge in self._of_sources.items():
            if rules is None or rule in rules:
                found += rows(judge.judge(*self._known(rule, controls), since_ms, until_ms), rule)
        return found

    def _new(self, changes: Sequence[Alert], controls: Controls) -> list[Alert]:
        self._known_alerts.read(self._known_alerts.missing(alert.alert_id for alert in changes))
        fresh = (alert for alert in changes if not self._is_stored(alert))
        return [_silenced(_operated(alert, controls), controls) for alert in fresh]

    def judge_own(self, own: OwnRulesJudge, controls: Controls, since_ms: int, until_ms: int) -> list[Alert]:
        """The changes of the rules by SQL at the instants of (since_ms, until_ms]."""
        changes = own.judge(controls, since_ms, until_ms)
        known = {alert.rule for alert in (*self._known_alerts.firing(), *changes)}
        flapping = FlappingAlerts(self._store, self._known_alerts, controls, (since_ms, until_ms))
        return self._new(flapping.rows(changes, *(known - LEDGER_RULES.keys())), controls)

    def lacks_prices(self, controls: Controls, since_ms: int, until_ms: int) -> bool:
        """Whether there may be usage without a price in the span, so that prices known then have to be handed in."""
        of = settings_of(missing_price.RULE.name, controls.fleet_rules)
        return self._missing_price.may_find(of, since_ms, until_ms)

    def _forgotten_before(
        self, controls: Controls, firing: Iterable[Alert], at_ms: int, episodes: Mapping[str, object]
    ) -> list[Alert]:
        """The groups of nodes that were forgotten at a whole hour that was judged before they were known.

        A collector's first poll tells of nodes that have been idle for long; the hour that ends next is not waited for.
        """
        settings = settings_of(forgotten_node.RULE.name, controls.fleet_rules)
        if not settings.enabled:
            return []
        known = {alert.subject_name for alert in firing if alert.rule == forgotten_node.RULE.name}
        bound = {"from_ms": at_ms - HOUR_MS, "to_ms": at_ms, **episodes}
        found = self._hourly(forgotten_node.RULE, settings, bound) if self._is_there(bound)["nodes"] else ()
        return [opened(each) for each in found if each.subject_name not in known]

    def _is_stored(self, alert: Alert) -> bool:
        row = self._known_alerts.last(alert.alert_id)
        if row is None:
            return False
        return row.status == alert.status == RESOLVED or changed_ms(row) >= changed_ms(alert)

    def _found(self, controls: Controls, bound: Mapping[str, object]) -> list[LedgerFinding]:
        """Where the rules hold in the hours; a rule is not asked about if the span has nothing that it looks at."""
        there = self._is_there(bound)
        found = list(self._team_burn(controls, bound)) if there["jobs"] else []
        of_nodes = settings_of(forgotten_node.RULE.name, controls.fleet_rules)
        bound = {**bound, "named_stray_nano": forgotten_node.named_stray_nano(of_nodes)}
        for rule in HOURLY_RULES:
            settings = settings_of(rule.name, controls.fleet_rules)
            if settings.enabled and there[rule.needs]:
                found += self._hourly(rule, settings, bound)
        settings = settings_of(unusual_length.NAME, controls.fleet_rules)
        if settings.enabled and there["jobs"]:
            found += self._unusual_length(settings, bound)
        return found

    def _is_there(self, bound: Mapping[str, object]) -> Mapping[str, Any]:
        (row,) = rows_of(self._store.query(IS_THERE, bound))
        return row

    def _holding(
        self, sql: str, bound: Mapping[str, object], column: str, **more: object
    ) -> Iterator[tuple[str, int, dict[str, Any] | None]]:
        """Yield where a rule holds: subject, end of the hour, and the row, if an alert may open there.

        None may open where it held in the hour before. Of a long episode only that hour is read as a row: it costs most.
        """
        rows = self._store.query(sql, {**bound, **more})
        subjects = zip(values_of(rows.column(column)), values_of(rows.column("at_ms")), strict=True)
        places = {subject: place for place, subject in enumerate(subjects)}
        opening = [place for (name, at_ms), place in places.items() if (name, at_ms - HOUR_MS) not in places]
        first = iter(rows_of(rows.take(pa.array(opening, pa.int64()))))
        for name, at_ms in places:
            yield name, at_ms, None if (name, at_ms - HOUR_MS) in places else next(first)

    def _hourly(
        self, rule: HourlyRule, of: LedgerSettings, bound: Mapping[str, object]
    ) -> Iterator[LedgerFinding]:
        """Yield the hours in which a rule holds."""
        more = rule.bound(of.thresholds, int(str(bound["from_ms"])))
        if not rule.key:
            for hour in rows_of(self._store.query(rule.sql, {**bound, **more})):
                yield _hour_found(rule, of, hour)
            return
        for name, at_ms, row in self._holding(rule.sql, bound, rule.key, **more):
            if row is None:
                yield LedgerFinding(rule.name, of.severity, rule.kind, name, at_ms, "", "")
            else:
                yield _hour_found(rule, of, row)

    def _team_burn(self, controls: Controls, bound: Mapping[str, object]) -> Iterator[LedgerFinding]:
        for record in controls.fleet_rules:
            if record.rule != team_burn.RULE.name or record.enabled is False:
                continue
            settings = settings_of(record.rule, [record])
            for row in rows_of(
                self._store.query(team_burn.sql_of(sorted(record.match)), {**bound, **record.match})
            ):
                found = team_burn.finding(settings, record.name, record.match, row)
                if found is not None:
                    yield found

    def _unusual_length(self, of: LedgerSettings, bound: Mapping[str, object]) -> Iterator[LedgerFinding]:
        begin_ms, end_ms = (int(str(bound[name])) for name in ("from_ms", "to_ms"))
        return unusual_lengths(self._store, of, begin_ms, end_ms)


def _operated(alert: Alert, controls: Controls) -> Alert:
    """The alert for whoever operates what it is about, if it has nobody of its own."""
    known = LEDGER_RULES.get(alert.rule)
    operator = "" if known is None else controls.operators.get(known.operator, "")
    return msgspec.structs.replace(alert, owner=operator) if operator and not alert.owner else alert


def _silenced(alert: Alert, controls: Controls) -> Alert:
    is_job = alert.subject_kind == "job"
    dimensions = AlertDimensions(
        alert.subject_name if is_job else "", owner=alert.owner, team=alert.team, project=alert.project
    )
    if controls.silenced(dimensions, alert.rule, alert.severity, alert.changed_ms):
        return msgspec.structs.replace(alert, silenced=True)
    return alert


def _hour_found(rule: HourlyRule, of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    found: LedgerFinding = rule.finding(of, row)
    return found._replace(margins=(*rule.margins(of.thresholds, row),))
