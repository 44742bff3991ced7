"""Judges the rule `incident`: reads which alerts have a cause that others may share.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from sinks.port import Store
from streams.engine.alerts.alert import Alert, alert_id
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS
from streams.engine.ledger_rules.incidents import EXPLAINED_MS, incident_changes
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.incident import EXPECTED_MS, SharedAlert
from streams.engine.rules.registry import BY_NAME
from streams.engine.rules.rule import DIGEST, JOB
from streams.engine.rules.shared_cause import SILENCE, STANDSTILL_RULES, of_standstill, parts_of
from streams.notify.history import StoredDeliveries
from streams.notify.kind_figures import KindFigures
from streams.notify.kind_hold import verdicts
from streams.worker.ledger_judges.opening_rates import JobInstant, OpeningRates

#: Those of this rule are its own.
SHARED_ALERTS: Final = """
SELECT shared_cause, rule, severity, subject_kind, subject_name, owner, team, project,
    toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms,
    toUnixTimestamp64Milli(ticket_since) AS ticket_ms, toUnixTimestamp64Milli(page_since) AS page_ms,
    toUnixTimestamp64Milli(stood_since) AS stood_ms,
    toInt64(toDecimal128(opened_usd_per_hour, 9) * 1000000000) AS nano_per_hour
FROM alerts FINAL
WHERE (shared_cause != '' OR rule IN {standstill:Array(String)}) AND rule != 'incident' AND started < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND started >= fromUnixTimestamp64Milli(if(subject_kind = 'job', {from_ms:Int64}, {named_from_ms:Int64}), 'UTC')"""


class IncidentJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kinds = KindFigures(store)
        self._records = StoredDeliveries(store)
        self._rates = OpeningRates(store)

    def judge(
        self,
        of: LedgerSettings,
        firing: Sequence[Alert],
        jumped: Iterable[Alert],
        span: tuple[int, int],
        operators: Mapping[str, str],
    ) -> list[Alert]:
        """Return the changes at the whole minutes of (since_ms, until_ms], the span.

        `jumped`: what `price_jump` tells in it, which is not stored yet; `operators`: owners by the name of their record.
        """
        since_ms, until_ms = (at_ms // MINUTE_MS * MINUTE_MS for at_ms in span)
        if until_ms <= since_ms or not (of.enabled or firing):
            return []
        first_ms = min([since_ms, *(alert.started_ms for alert in firing)]) - FLAPS_WITHIN_MS
        bound = {
            "from_ms": max(first_ms, 0),
            "named_from_ms": max(since_ms - EXPLAINED_MS, 0),
            "to_ms": until_ms,
            "standstill": list(STANDSTILL_RULES),
        }
        rows = [*rows_of(self._store.query(SHARED_ALERTS, bound))]
        named_ms: dict[str, list[int]] = {}
        for row in rows:
            if row["subject_kind"] != JOB:
                named_ms.setdefault(row["shared_cause"], []).append(row["started_ms"])
        for alert in jumped:
            named_ms.setdefault(alert.shared_cause, []).append(alert.started_ms)
        alerts = self._with_causes([*_of_jobs(rows)], int(of.thresholds["jobs"]), since_ms - EXPECTED_MS)
        return incident_changes(alerts, firing, named_ms, since_ms, until_ms, of, operators)

    def _with_causes(
        self, alerts: Sequence[SharedAlert], jobs: int, counted_from_ms: int
    ) -> list[SharedAlert]:
        """The alerts by each of their causes: their own, and the cluster in which others stand still as well.

        What burns wasted counts of those that opened from `counted_from_ms` on.
        """
        standing = {each.job_id for each in alerts if each.rule in STANDSTILL_RULES}
        clusters = self._records.clusters_of(standing) if len(standing) >= jobs else {}
        in_cluster = {each: of_standstill(each.rule, clusters.get(each.job_id, "")) for each in alerts}
        of_cause: dict[str, set[str]] = {}
        for each in alerts:
            for cause in filter(None, (each.cause, in_cluster[each])):
                of_cause.setdefault(cause, set()).add(each.job_id)
        shared = {cause for cause, of in of_cause.items() if len(of) >= jobs}
        asked = [each for each in alerts if not shared.isdisjoint((each.cause, in_cluster[each]))]
        burns = {
            each: JobInstant(each.job_id, each.started_ms)
            for each in asked
            if _is_burn(each) and each.started_ms >= counted_from_ms
        }
        rates = self._rates.expected(burns.values())
        expected = {each: rates.get(opening) for each, opening in burns.items()}
        known = {**dict(zip(alerts, alerts, strict=True)), **self._as_known(asked)}
        silent = {each.job_id for each in asked if each.cause and parts_of(each.cause)[0] == SILENCE}
        pools = self._records.pools_of(silent) if silent else {}
        return [
            known[each]._replace(
                cause=cause,
                pool=pools.get(each.job_id, ("", "")),
                expected_nano=expected.get(each),
            )
            for each in alerts
            for cause in filter(None, (each.cause, in_cluster[each]))
        ]

    def _as_known(self, alerts: Iterable[SharedAlert]) -> dict[SharedAlert, SharedAlert]:
        """Those that are usual for their kinds as ones for the digest until they are beyond that."""
        asked = {
            alert_id(each.rule, JOB, each.job_id, each.started_ms): each
            for each in alerts
            if each.rule in BY_NAME and BY_NAME[each.rule].usual_by
        }
        stored = [*self._records.alerts_of([*asked]).values()]
        usual = {
            asked[alert.alert_id]: of.beyond_ms
            for alert, of in zip(stored, verdicts(self._kinds, [(each, 0) for each in stored]), strict=True)
            if of.beyond_ms != alert.started_ms
        }
        return {each: _usual_until(each, beyond_ms) for each, beyond_ms in usual.items()}


def _is_burn(alert: SharedAlert) -> bool:
    rule = BY_NAME.get(alert.rule)
    return rule is not None and rule.usual_by == "rate"


def _usual_until(alert: SharedAlert, beyond_ms: int | None) -> SharedAlert:
    if beyond_ms is None:
        return alert._replace(severity=DIGEST)
    return alert._replace(
        ticket_ms=max(alert.ticket_ms or 0, beyond_ms), page_ms=max(alert.page_ms or 0, beyond_ms)
    )


def _of_jobs(rows: Sequence[Mapping[str, Any]]) -> Iterator[SharedAlert]:
    for row in rows:
        if row["subject_kind"] == JOB:
            yield SharedAlert(
                row["shared_cause"],
                row["rule"],
                row["severity"],
                row["subject_name"],
                row["owner"],
                row["team"],
                row["project"],
                row["started_ms"],
                row["resolved_ms"],
                row["nano_per_hour"],
                row["ticket_ms"],
                row["page_ms"],
                row["stood_ms"],
            )
