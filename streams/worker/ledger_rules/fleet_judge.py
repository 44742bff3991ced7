"""Judges the rules across jobs that go by the hour: reads the hours in which they hold, and steps their episodes.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from schemas.columns import rows_of, values_of
from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.dimensions import AlertDimensions
from streams.engine.alerts.evidence import quoted
from streams.engine.alerts.formatting import NAMES_AT_MOST, count, rounded_usd, sentence, short, unheeded, usd
from streams.engine.ledger_rules import fleet_rules as rules
from streams.engine.ledger_rules.fleet_rules import (
    FLEET_RULES,
    FleetSettings,
    HourFinding,
    hourly_changes,
    opened,
    settings_of,
)
from streams.engine.ledger_rules.known_prices import KnownBook
from streams.engine.ledger_rules.oversized import EVERY_MS
from streams.engine.ledger_rules.price_jump import PriceJump
from streams.worker.ledger_rules import fleet_sql
from streams.worker.ledger_rules.known_alerts import KnownAlerts
from streams.worker.ledger_rules.missing_price_judge import MissingPriceJudge
from streams.worker.ledger_rules.oversized_judge import OversizedJudge
from streams.worker.ledger_rules.reader import SqlStore
from streams.worker.ledger_rules.source_judge import SourceJudge
from streams.worker.ledger_rules.unusual_length_judge import unusual_lengths

_FLEET: Final = "fleet"


class FleetJudge:
    """Call `judge` for successive spans of minutes; it looks at the hours that end in them, for some rules at five minutes."""

    def __init__(self, store: SqlStore, known_alerts: KnownAlerts) -> None:
        self._store = store
        self._known_alerts = known_alerts
        self._oversized = OversizedJudge(store)
        self._missing_price = MissingPriceJudge(store)
        self._sources = SourceJudge(store)

    def judge(
        self,
        controls: Controls,
        since_ms: int,
        until_ms: int,
        jumps: Sequence[PriceJump],
        books: Sequence[KnownBook],
    ) -> list[Alert]:
        """Return the changes at the whole hours of (since_ms, until_ms], of some rules also at five minutes between them.

        What is stored of them already is left out: a new owner may judge hours again.

        Args:
            controls: The controls in force.
            since_ms: The last minute that was judged.
            until_ms: The last minute to judge.
            jumps: The prices that jump in these hours, as they were known then.
            books: The prices that were known at the whole five minutes of the span; not needed unless it `lacks_prices`.
        """
        self._known_alerts.read_firing()
        firing = [alert for alert in self._known_alerts.firing() if alert.rule in FLEET_RULES]
        of = settings_of(rules.OVERSIZED, controls.fleet_rules)
        oversized = [alert for alert in firing if alert.rule == rules.OVERSIZED]
        changes = self._oversized.judge(of, oversized, since_ms, until_ms)
        of = settings_of(rules.MISSING_PRICE, controls.fleet_rules)
        missing = [alert for alert in firing if alert.rule == rules.MISSING_PRICE]
        changes += self._missing_price.judge(of, missing, since_ms, until_ms, books)
        changes += self._of_sources(controls, firing, since_ms, until_ms)
        apart = (rules.OVERSIZED, rules.MISSING_PRICE, rules.NOT_UNDERSTOOD)
        others = [alert for alert in firing if alert.rule not in apart]
        begin_ms, end_ms = (at_ms // HOUR_MS * HOUR_MS for at_ms in (since_ms, until_ms))
        # Before the next hour ends, in whatever spans these minutes are judged.
        if since_ms // EVERY_MS < min(until_ms, begin_ms + HOUR_MS - 1) // EVERY_MS:
            forgotten = self._forgotten_before(controls, others, begin_ms)
            changes, others = changes + forgotten, others + forgotten
        if begin_ms < end_ms:
            found = self._found(controls, {"from_ms": begin_ms, "to_ms": end_ms})
            severity = settings_of(rules.PRICE_JUMP, controls.fleet_rules).severity
            found += [_jumped(severity, jump) for jump in jumps]
            changes += hourly_changes(others, found, range(begin_ms + HOUR_MS, end_ms + 1, HOUR_MS))
        return self._new(changes, controls)

    def judge_sources(self, controls: Controls, since_ms: int, until_ms: int) -> list[Alert]:
        """Return the changes of what sources say alone, which need no ledger: of one that nothing is metered of there may be none."""
        self._known_alerts.read_firing()
        changes = self._of_sources(controls, self._known_alerts.firing(), since_ms, until_ms)
        return self._new(changes, controls)

    def _of_sources(
        self, controls: Controls, firing: Iterable[Alert], since_ms: int, until_ms: int
    ) -> list[Alert]:
        of = settings_of(rules.NOT_UNDERSTOOD, controls.fleet_rules)
        causes = [alert for alert in firing if alert.rule == rules.NOT_UNDERSTOOD]
        return self._sources.judge(of, causes, since_ms, until_ms)

    def _new(self, changes: Sequence[Alert], controls: Controls) -> list[Alert]:
        self._known_alerts.read(self._known_alerts.missing(alert.alert_id for alert in changes))
        return [_silenced(alert, controls) for alert in changes if not self._is_stored(alert)]

    def lacks_prices(self, controls: Controls, since_ms: int, until_ms: int) -> bool:
        """Return whether there may be usage without a price in the span, so that prices known then have to be handed in."""
        of = settings_of(rules.MISSING_PRICE, controls.fleet_rules)
        return self._missing_price.may_find(of, since_ms, until_ms)

    def _forgotten_before(self, controls: Controls, firing: Iterable[Alert], at_ms: int) -> list[Alert]:
        """Return the nodes that were forgotten at a whole hour that was judged before they were known.

        A collector's first poll tells of nodes that have been idle for long; the hour that ends next is not waited for.
        """
        settings = settings_of(rules.FORGOTTEN_NODE, controls.fleet_rules)
        if not settings.enabled:
            return []
        known = {alert.subject_name for alert in firing if alert.rule == rules.FORGOTTEN_NODE}
        bound = {"from_ms": at_ms - HOUR_MS, "to_ms": at_ms}
        found = self._forgotten_node(settings, bound) if self._is_there(bound)["nodes"] else ()
        return [opened(each) for each in found if each.subject_name not in known]

    def _is_stored(self, alert: Alert) -> bool:
        row = self._known_alerts.last(alert.alert_id)
        return row is not None and (row.status == alert.status or row.changed_ms >= alert.changed_ms)

    def _found(self, controls: Controls, bound: Mapping[str, object]) -> list[HourFinding]:
        """Return where the rules hold in the hours; a rule is not asked about if the span has nothing that it looks at."""
        there = self._is_there(bound)
        found = list(self._team_burn(controls, bound)) if there["jobs"] else []
        for rule, of_what, read in (
            (rules.RETRY_OVERHEAD, "jobs", self._retry_overhead),
            (rules.UNALLOCATED, "nodes", self._unallocated),
            (rules.OWNER_COVERAGE, "jobs", self._owner_coverage),
            (rules.FORGOTTEN_NODE, "nodes", self._forgotten_node),
            (rules.PROVISIONING_BURST, "nodes", self._provisioning_burst),
            (rules.UNUSUAL_LENGTH, "jobs", self._unusual_length),
            (rules.UNSAMPLED_GPUS, "samples", self._unsampled_gpus),
        ):
            settings = settings_of(rule, controls.fleet_rules)
            if settings.enabled and there[of_what]:
                found += read(settings, bound)
        return found

    def _is_there(self, bound: Mapping[str, object]) -> Mapping[str, Any]:
        (row,) = rows_of(self._store.query(fleet_sql.IS_THERE, bound))
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

    def _team_burn(self, controls: Controls, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        for record in controls.fleet_rules:
            if record.rule != rules.TEAM_BURN or record.enabled is False:
                continue
            settings = settings_of(rules.TEAM_BURN, [record])
            most, share = settings.thresholds["usd_per_hour"], settings.thresholds["share_ratio"]
            fields = sorted(record.match)
            kind = next(
                (name for name in ("experiment", "project", "team", "owner") if name in fields), _FLEET
            )
            name = record.match.get(kind, "")
            for row in rows_of(self._store.query(fleet_sql.team_burn_sql(fields), {**bound, **record.match})):
                spent, fleet = float(row["usd"]), float(row["fleet_usd"])
                part = spent / fleet if fleet else 0.0
                limit = f"{rounded_usd(_nano(most))}/h" if most and spent > most else f"{100 * share:g} %"
                if (most and spent > most) or (share and part > share):
                    yield HourFinding(
                        rules.TEAM_BURN, settings.severity, kind, name, row["at_ms"],
                        _named(f"{kind} ", name, f" spent {rounded_usd(_nano(spent))} in an hour, {100 * part:.0f} % of the fleet; its limit is"
                            f" {limit} (rule {short(record.name)}); shrink or move jobs, or raise it, else {unheeded(_nano(spent), row['at_ms'])}"),
                        _hours(" AND ".join(f"h.{each} = {quoted(value)}" for each, value in record.match.items()) or "1", row),
                        part, _nano(spent), _nano(spent),
                        record.match.get("owner", ""), record.match.get("team", ""), record.match.get("project", ""),
                    )  # fmt: skip

    def _retry_overhead(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        more = {**of.thresholds, "attempts": int(of.thresholds["attempts"])}
        for job, at_ms, row in self._holding(fleet_sql.RETRY_OVERHEAD, bound, "job_id", **more):
            if row is None:
                yield HourFinding(rules.RETRY_OVERHEAD, of.severity, "job", job, at_ms, "", "")
                continue
            spent, lost = float(row["usd"]), float(row["lost_usd"])
            yield HourFinding(
                rules.RETRY_OVERHEAD, of.severity, "job", job, row["at_ms"],
                _named("", job, f" has lost {usd(_nano(lost))} of {usd(_nano(spent))} ({100 * lost / spent:.0f} %) to {row['broken']} attempts"
                " that failed or were preempted; checkpoint more often, or find out why they end"),
                f"SELECT * FROM lost_work WHERE job_id = {quoted(job)} ORDER BY hour",  # noqa: S608 - quoted() escapes the name
                lost / spent, 0, _nano(lost), row["owner"], row["team"], row["project"],
            )  # fmt: skip

    def _unallocated(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        for row in rows_of(self._store.query(fleet_sql.UNALLOCATED, {**bound, **of.thresholds})):
            spent, idle = float(row["usd"]), float(row["idle_usd"])
            yield HourFinding(
                rules.UNALLOCATED, of.severity, _FLEET, "nodes", row["at_ms"],
                f"{rounded_usd(_nano(idle))} of the {rounded_usd(_nano(spent))} that GPU nodes cost in an hour ({100 * idle / spent:.0f} %) was used"
                f" by no job (`trainfare idle --by cluster,node`); give nodes back or let jobs in, else {unheeded(_nano(idle), row['at_ms'])}",
                "SELECT * FROM idle_hours ORDER BY hour DESC LIMIT 24",
                idle / spent, _nano(idle), _nano(idle),
            )  # fmt: skip

    def _owner_coverage(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        for row in rows_of(self._store.query(fleet_sql.OWNER_COVERAGE, {**bound, **of.thresholds})):
            spent, unowned = float(row["usd"]), float(row["unowned_usd"])
            yield HourFinding(
                rules.OWNER_COVERAGE, of.severity, _FLEET, "owners", row["at_ms"],
                f"{rounded_usd(_nano(unowned))} of {rounded_usd(_nano(spent))} in an hour ({100 * unowned / spent:.0f} %) is of jobs without an owner:"
                " nobody gets their alerts; let the scheduler's events name `owner`",
                _hours("h.owner = ''", row),
                1 - unowned / spent, _nano(unowned), _nano(unowned),
            )  # fmt: skip

    def _forgotten_node(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        hours = int(of.thresholds["hours"])
        since_ms = int(str(bound["from_ms"])) - (hours - 1) * HOUR_MS
        more = {"since_ms": since_ms, "before_s": (hours - 1) * 3600, "hours": hours}
        for node, at_ms, row in self._holding(fleet_sql.FORGOTTEN_NODE, bound, "node", **more):
            if row is None:
                yield HourFinding(rules.FORGOTTEN_NODE, of.severity, "node", node, at_ms, "", "")
                continue
            spent = float(row["usd"])
            yield HourFinding(
                rules.FORGOTTEN_NODE, of.severity, "node", node, row["at_ms"],
                _named("node ", node, f" has been paid for {hours} h and had no job, {usd(_nano(spent))}/h; terminate it"
                f" or let jobs on it, else {unheeded(_nano(spent), row['at_ms'])}"),
                f"SELECT * FROM node_hours FINAL WHERE node = {quoted(node)} ORDER BY hour DESC LIMIT 24",  # noqa: S608 - quoted() escapes the name
                0.0, _nano(spent), _nano(spent * hours), "", row["team"],
            )  # fmt: skip

    def _provisioning_burst(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        for row in rows_of(self._store.query(fleet_sql.PROVISIONING_BURST, bound)):
            what = f"{short(row['instance_type'])} in {short(row['cluster'])}"
            yield HourFinding(
                rules.PROVISIONING_BURST, of.severity, _FLEET, f"{row['cluster']}/{row['instance_type']}", row["at_ms"],
                f"{row['nodes']} nodes {what} were new in an hour, usual are {row['usual_nodes']:.1f}; look at the autoscaler and its limits",
                "SELECT * FROM provisioning_bursts ORDER BY hour DESC LIMIT 20", float(row["nodes"]),
            )  # fmt: skip

    def _unusual_length(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        begin_ms, end_ms = (int(str(bound[name])) for name in ("from_ms", "to_ms"))
        return unusual_lengths(self._store, of, begin_ms, end_ms)

    def _unsampled_gpus(self, of: FleetSettings, bound: Mapping[str, object]) -> Iterator[HourFinding]:
        for job, at_ms, row in self._holding(fleet_sql.UNSAMPLED_GPUS, bound, "job_id", **of.thresholds):
            if row is None:
                yield HourFinding(rules.UNSAMPLED_GPUS, of.severity, "job", job, at_ms, "", "")
            else:
                yield _unsampled(of.severity, row)


def _jumped(severity: str, jump: PriceJump) -> HourFinding:
    sku, ratio = jump.sku, jump.usd_nano / jump.before_nano
    return HourFinding(
        rules.PRICE_JUMP, severity, "sku", sku, jump.at_ms,
        f"price {short(sku, NAMES_AT_MOST)} went from {usd(jump.before_nano)} to {usd(jump.usd_nano)} a {jump.per}, {ratio:.2g} times;"
        " is it the right currency and unit? A revision with the same `effective_ms` corrects it",
        f"SELECT * FROM prices FINAL WHERE sku = {quoted(sku)} ORDER BY effective",  # noqa: S608 - quoted() escapes the name
        ratio,
    )  # fmt: skip


def _silenced(alert: Alert, controls: Controls) -> Alert:
    is_job = alert.subject_kind == "job"
    dimensions = AlertDimensions(
        alert.subject_name if is_job else "", owner=alert.owner, team=alert.team, project=alert.project
    )
    if controls.silenced(dimensions, alert.rule, alert.severity, alert.changed_ms):
        return msgspec.structs.replace(alert, silenced=True)
    return alert


def _hours(where: str, row: Mapping[str, Any]) -> str:
    """Return SQL for the dearest jobs of the hour."""
    hour = f"toDateTime({row['at_ms'] // 1000 - 3600:d}, 'UTC')"
    return (
        "SELECT h.job_id AS job_id, any(h.owner) AS owner, any(h.team) AS team, sum(h.cost_usd) AS cost_usd"  # noqa: S608 - quoted() escapes the names
        f" FROM cost_hours AS h WHERE h.hour = {hour} AND {where} GROUP BY job_id ORDER BY cost_usd DESC LIMIT 20"
    )


def _unsampled(severity: str, row: Mapping[str, Any]) -> HourFinding:
    job, cluster, share, spent = row["job_id"], row["cluster"], row["unsampled_ratio"], _nano(row["usd"])
    digits = 1 if row["gpus"] < 10 else 0
    held, without = (count(round(row["gpus"] * each, digits) * 1000) for each in (1, share))
    return HourFinding(
        rules.UNSAMPLED_GPUS, severity, "job", job, row["at_ms"],
        sentence(lambda at_most: f"{short(job, at_most)}: {without} of {held} GPUs had no samples for an hour, of"
            f" {f'cluster {short(cluster, at_most)}' if cluster else 'other jobs'} {100 * row['others_ratio']:.0f} % were sampled;"
            f" find their process or give them back, else {unheeded(spent, row['at_ms'])}"),
        f"SELECT * FROM usage WHERE job_id = {quoted(job)} ORDER BY minute DESC LIMIT 60",  # noqa: S608 - quoted() escapes the name
        share, spent, spent, row["owner"], row["team"], row["project"],
    )  # fmt: skip


def _named(before: str, name: str, after: str) -> str:
    return sentence(lambda at_most: f"{before}{short(name, at_most)}{after}".strip())


def _nano(value: float | Decimal) -> int:
    return round(float(value) * 1e9)
