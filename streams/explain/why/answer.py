"""How far each rule is from firing for a job or an alert, and what kept its messages back: for the terminal, the API and the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from streams.engine.pricing.gpu_types import product
from streams.engine.rules import owner_coverage
from streams.engine.rules.missing_price import GPU_KIND
from streams.engine.rules.rule import margins_of
from streams.explain.acts import DIMENSIONS, IN_FORCE, facts_of, jobs_of
from streams.explain.stored import ExplainedStore
from streams.explain.why import sql
from streams.explain.why.judged import CONTROLS, JudgedJob, JudgedRule, condition, judged
from streams.explain.why.messages import fates, is_firing, outranked
from streams.explain.why.next_recipient import ESCALATIONS
from streams.explain.why.own_rules import by_statement, is_by_sql
from streams.explain.why.plans import plans_of

#: The form of the ids of alerts.
ALERT_ID: Final = re.compile(r"al_[0-9a-f]{24}", re.ASCII)


class RecordReader(Protocol):
    """What is asked: a store, or a worker that has it open."""

    def records(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """The rows of a query as objects."""
        ...

    def judged(self, job_id: str, at_ms: int | None) -> JudgedJob:
        """How far each rule about a job is from firing at an instant; None: the newest of the job."""
        ...


class StoreRecords:
    """A store that is open in this process; a shard's stored state above `state_max_bytes` is not read."""

    def __init__(self, store: ExplainedStore, state_max_bytes: int) -> None:
        self._store = store
        self._state_max_bytes = state_max_bytes

    def records(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """The rows of a query as objects."""
        return self._store.ask(sql, parameters).records()

    def judged(self, job_id: str, at_ms: int | None) -> JudgedJob:
        """How far each rule about a job is from firing at an instant; None: the newest of the job."""
        return judged(self._store, job_id, at_ms, self._state_max_bytes)


def answer(store: RecordReader, subject_id: str, at_ms: int | None) -> dict[str, Any] | None:
    """What is known of a job, or of the subject of an alert, at an instant; None: the store knows neither.

    Args:
        store: Where it is asked.
        subject_id: A job, or the id of an alert.
        at_ms: The instant; None: the newest of the job, of an alert that of its last change.
    """
    alert = None
    if ALERT_ID.fullmatch(subject_id):
        alert = next(iter(store.records(sql.ONE_ALERT, alert=subject_id)), None)
    kind, name = "job", subject_id
    if alert is not None:
        kind, name = str(alert["subject_kind"]), str(alert["subject_name"])
    job = next(iter(store.records(sql.JOB, job=name)), None) if kind == "job" else None
    if job is None and alert is None:
        return None
    # Who acknowledged or silenced it after its last change keeps the next message back.
    acts_ms = at_ms
    if at_ms is None and alert is not None:
        at_ms = int(str(alert["changed_ms"]))
        newest = (*store.records(sql.NEWEST_TICK), *store.records(sql.NEWEST_ACT))
        acts_ms = max(at_ms, *(int(str(row["at_ms"])) for row in newest))
    of_job = None if job is None else store.judged(name, at_ms)
    if of_job is not None:
        at_ms = of_job.at_ms
    assert at_ms is not None  # the subject is a job or an alert
    acts_ms = at_ms if acts_ms is None else acts_ms
    alerts: list[dict[str, Any]] = store.records(sql.ALERTS, kind=kind, name=name, at_ms=at_ms)
    if alert is not None:
        alerts = [alert]
    controls: list[dict[str, Any]] = store.records(IN_FORCE, at_ms=acts_ms)
    dimensions: dict[str, Any] = {}
    if jobs := sorted({*jobs_of(alerts), *([name] if job is not None else ())}):
        dimensions = {str(row["job_id"]): row for row in store.records(DIMENSIONS, jobs=jobs)}
    facts = {row["alert_id"]: facts_of(row, dimensions) for row in alerts}
    ids = [row["alert_id"] for row in alerts]
    deliveries = store.records(sql.DELIVERIES, alerts=ids) if ids else []
    rules = [] if of_job is None else of_job.rules
    rules = [*rules, *_when_opened(alerts, at_ms)]
    if alert is not None:
        rules = [*rules, *_by_sql(store, alert, at_ms)]
    holds = {each.rule for each in rules if each.holds}
    wider = [] if job is None or alert is not None else _wider(store, dimensions[name], at_ms)
    names = sorted({row[field] for row in alerts for field in ("owner", "team") if row[field]})
    receiver_records = store.records(ESCALATIONS, at_ms=acts_ms, names=names) if names else []
    sent = fates(alerts, deliveries, controls, facts, acts_ms, receiver_records)
    messages = [*sent, *outranked(holds, alerts, at_ms)]
    return {
        "subject": {"kind": kind, "name": name},
        "at_ms": at_ms,
        "rule": "" if alert is None else alert["rule"],
        "rules": [msgspec.structs.asdict(each) for each in rules],
        "rules_missing": "" if of_job is None else of_job.missing,
        "records_unknown": 0 if of_job is None else of_job.records_unknown,
        "plans": [
            each._asdict() for each in plans_of(controls, {**dimensions.get(name, {}), "job_id": name}, at_ms)
        ]
        if job is not None
        else [],
        "budgets": store.records(sql.BUDGETS, kind=kind, name=name),
        "messages": [each._asdict() for each in messages],
        "wider_alerts": wider,
        "statement": "" if alert is None else _statement(store, str(alert["alert_id"])),
        "mend": [] if alert is None else _mends(store, str(alert["alert_id"])),
    }


def _wider(store: RecordReader, job: Mapping[str, Any], at_ms: int) -> list[dict[str, Any]]:
    """The alerts about what a job is part of: its team, its cluster, the price that its type of GPU lacks."""
    about = [(kind, str(name)) for kind, name in job.items() if kind != "job_id" and name]
    about += [(GPU_KIND, product(name)) for kind, name in about if kind == GPU_KIND]
    about += [] if job["owner"] else [owner_coverage.SUBJECT]
    if not about:
        return []
    kinds, names = zip(*about, strict=True)
    return store.records(sql.WIDER_ALERTS, at_ms=at_ms, kinds=[*kinds], names=[*names])


def _when_opened(alerts: Iterable[Mapping[str, Any]], at_ms: int) -> list[JudgedRule]:
    """How far rules that are judged on the ledger were beyond their thresholds when these alerts opened."""
    return [
        condition(
            alert["rule"],
            margin._replace(what=f"{margin.what}, when it opened"),
            holds=is_firing(alert, at_ms),
            enabled=True,
        )
        for alert in alerts
        for margin in margins_of(alert["margins"])
    ]


def _by_sql(store: RecordReader, alert: dict[str, Any], at_ms: int) -> list[JudgedRule]:
    """What is known of an alert of a rule by SQL; nothing is asked again."""
    if not is_by_sql(str(alert["rule"])):
        return []
    return by_statement(alert, store.records(CONTROLS, at_ms=at_ms), is_firing=is_firing(alert, at_ms))


def _statement(store: RecordReader, alert_id: str) -> str:
    """The statement of an alert of a rule by SQL, '' of another one."""
    found = store.records(sql.STATEMENT, alert=alert_id)
    return str(found[0]["evidence_sql"]) if found else ""


def _mends(store: RecordReader, alert_id: str) -> list[str]:
    """The commands that the evidence of an alert about a missing price has."""
    found = store.records(sql.MISSING_PRICE_EVIDENCE, alert=alert_id)
    rows = store.records(str(found[0]["evidence_sql"])) if found else []
    return sorted({str(row["mend"]) for row in rows if row.get("mend")})
