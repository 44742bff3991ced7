"""All that is known of one alert or incident: what happened, who got a message, what it cost, and what would have fired earlier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol

from schemas.durations import DAY_MS, MINUTE_MS
from sinks.errors import SinkError
from streams.engine.rules.rule import JOB
from streams.explain import acts, alert_list
from streams.explain.alert_list import AlertsAsked
from streams.explain.incident import sql
from streams.explain.incident.earlier import EarlierRule, earlier
from streams.explain.incident.sizes import sizes_of
from streams.explain.incident.timeline import (
    TimelineEntry,
    actions_of,
    alerts_of,
    attempts_of,
    controls_of,
    messages_of,
)
from streams.explain.why import sql as why_sql
from streams.explain.why.answer import ALERT_ID, RecordReader, answer
from streams.explain.why.margin_history import MarginHistory
from streams.explain.why.own_rules import is_by_sql

Row = Mapping[str, Any]
DEAREST_MAX: Final = 5
ENTRIES_MAX: Final = 200
EVIDENCE_MAX: Final = 20
#: So many members of an incident are looked at for the dearest.
_MEMBERS_MAX: Final = alert_list.LIMIT_MAX
_NOTHING: Final = Decimal(0)


class IncidentReader(RecordReader, Protocol):
    """What is asked: a store, or a worker that has it open."""

    def histories_before(self, alert: Row) -> list[MarginHistory]:
        """How far each rule about the job of an alert, a row of it, was from firing until it opened."""
        ...


class JobSpend(NamedTuple):
    """What a job cost while the alert fired, by whole minutes, or hours where minutes are deleted; and in all."""

    job_id: str
    owner: str
    team: str
    state: str
    spent_usd: Decimal
    lost_usd: Decimal
    is_by_hour: bool
    total_usd: Decimal
    total_lost_usd: Decimal


class Evidence(NamedTuple):
    """The rows behind an alert and the query for them; `missing`: why there are none, '' if it was asked."""

    statement: str
    columns: list[str]
    rows: list[list[Any]]
    row_count: int
    missing: str


@dataclass(frozen=True)
class IncidentReport:
    """One alert with everything around it; instants in ms since 1970, UTC, of the log."""

    alert: Row
    part_of: Row | None
    as_of_ms: int
    member_count: int
    member_jobs: int
    jobs: list[JobSpend]  # the dearest, or the one that it is about
    spent_usd: Decimal  # by all of its jobs, while it fired
    lost_usd: Decimal
    entries: list[TimelineEntry]
    entries_left_out: int
    conditions: list[Row]  # of its rule, when it opened
    evidence: Evidence
    messages: list[Row]
    deliveries: list[Row]
    acted: list[Row]  # records of controls that are for it
    earlier: list[EarlierRule]
    earlier_about: Row | None  # the alert whose job was asked about; None: it is about no job
    earlier_missing: str

    @property
    def until_ms(self) -> int:
        """When it ended, or as of when it still fires."""
        resolved_ms = self.alert["resolved_ms"]
        return self.as_of_ms if resolved_ms is None else int(resolved_ms)


def incident_report(store: IncidentReader, alert_id: str) -> IncidentReport | None:
    """What there is to report of an alert; None: the store has none of this id.

    Raises:
        SinkError: The store does not answer.
    """
    if not ALERT_ID.fullmatch(alert_id):
        return None
    alert = next(iter(_alerts(store, [alert_id])), None)
    if alert is None:
        return None
    as_of_ms = max(
        int(alert["changed_ms"]), *(int(row["at_ms"]) for row in store.records(why_sql.NEWEST_TICK))
    )
    until_ms = as_of_ms if alert["resolved_ms"] is None else int(alert["resolved_ms"])
    head = next((str(row["head"]) for row in _ask(store, alert_list.HEAD_OF, alert=alert_id)), alert_id)
    members = _members(store, alert)
    counted = next(iter(_ask(store, alert_list.MEMBERS, alerts=[alert_id])), None) if members else None
    names = acts.jobs_of([alert, *members])
    spends = _spends(store, names, int(alert["started_ms"]), until_ms)
    dearest = spends[:DEAREST_MAX]
    shown = {each.job_id for each in dearest}
    about = alert if alert["subject_kind"] == JOB else _first_of(members, dearest)
    others = _others(store, alert if about is None else about, as_of_ms)
    around = [alert, *(row for row in members if row["subject_name"] in shown)]
    around += [row for row in others if row["alert_id"] not in {each["alert_id"] for each in around}]
    ids = [str(row["alert_id"]) for row in around]
    deliveries = store.records(why_sql.DELIVERIES, alerts=ids)
    why = answer(store, alert_id, int(alert["started_ms"]))
    assert why is not None  # the store has the alert
    span = int(alert["started_ms"]) - DAY_MS, max(until_ms, as_of_ms)
    acted, entries = _entries(store, alert, around, sorted(shown), deliveries, span)
    histories = [] if about is None else store.histories_before(about)
    found_earlier = _earlier(store, histories, about, others)
    return IncidentReport(
        alert=alert,
        part_of=None if head == alert_id else next(iter(_alerts(store, [head])), None),
        as_of_ms=as_of_ms,
        member_count=int(counted["alerts"]) if counted else 0,
        member_jobs=int(counted["jobs"]) if counted else 0,
        jobs=dearest,
        spent_usd=sum((each.spent_usd for each in spends), _NOTHING),
        lost_usd=sum((each.lost_usd for each in spends), _NOTHING),
        entries=entries[-ENTRIES_MAX:],
        entries_left_out=max(0, len(entries) - ENTRIES_MAX),
        conditions=[each for each in why["rules"] if each["rule"] == alert["rule"]],
        evidence=_evidence(store, alert),
        messages=[each for each in why["messages"] if each["alert_id"] == alert_id],
        deliveries=[row for row in deliveries if row["alert_id"] == alert_id],
        acted=acted,
        earlier=found_earlier,
        earlier_about=about,
        earlier_missing=next((each.missing for each in histories), ""),
    )


def _ask(store: RecordReader, statement: str, **parameters: object) -> list[dict[str, Any]]:
    return store.records(alert_list.settled(statement), **parameters)


def _alerts(store: RecordReader, ids: Sequence[str]) -> list[Row]:
    """Their rows, in this order."""
    found = {row["alert_id"]: row for row in store.records(sql.ALERTS, alerts=list(ids))} if ids else {}
    return [found[each] for each in ids if each in found]


def _members(store: RecordReader, alert: Row) -> list[Row]:
    """The alerts of jobs that this one tells of."""
    if alert["subject_kind"] == JOB or not alert["shared_cause"]:
        return []
    asked = AlertsAsked(part_of=str(alert["alert_id"]), limit=_MEMBERS_MAX)
    places = _ask(store, asked.sql(), **asked.parameters())
    return _alerts(store, [str(row["alert_id"]) for row in places])


def _others(store: RecordReader, alert: Row, as_of_ms: int) -> list[Row]:
    """The other alerts about the same subject, of the day before and since."""
    kind, name = alert["subject_kind"], alert["subject_name"]
    ids = {
        str(row["alert_id"])
        for at_ms in (int(alert["started_ms"]), as_of_ms)
        for row in store.records(why_sql.ALERTS, kind=kind, name=name, at_ms=at_ms)
    }
    return _alerts(store, sorted(ids - {str(alert["alert_id"])}))


def _first_of(members: Sequence[Row], dearest: Sequence[JobSpend]) -> Row | None:
    """The alert of the dearest member, None if there are no members."""
    names = [each.job_id for each in dearest]
    known = [row for row in members if row["subject_name"] in names]
    return min(
        known,
        key=lambda row: (names.index(row["subject_name"]), row["started_ms"], row["alert_id"]),
        default=None,
    )


def _spends(store: RecordReader, names: Sequence[str], from_ms: int, until_ms: int) -> list[JobSpend]:
    """What jobs cost from the minute in which it opened on until it ended, the dearest first."""
    if not names:
        return []
    # An alert that opens and ends within one minute is of that minute.
    to_ms = max(until_ms, from_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS)
    since_ms = from_ms // MINUTE_MS * MINUTE_MS
    spent = {
        row["job_id"]: row
        for row in store.records(sql.SPENT, jobs=list(names), from_ms=since_ms, until_ms=to_ms)
    }
    found = []
    for total in store.records(sql.TOTALS, jobs=list(names)):
        row = spent.get(total["job_id"])
        is_by_hour = row is not None and not row["minutes"]
        usd, lost = ("hours_usd", "lost_hours_usd") if is_by_hour else ("cost_usd", "lost_cost_usd")
        found.append(
            JobSpend(
                job_id=str(total["job_id"]),
                owner=str(total["owner"]),
                team=str(total["team"]),
                state=str(total["state"]),
                spent_usd=_NOTHING if row is None else Decimal(str(row[usd])),
                lost_usd=_NOTHING if row is None else Decimal(str(row[lost])),
                is_by_hour=is_by_hour,
                total_usd=Decimal(str(total["cost_usd"])),
                total_lost_usd=Decimal(str(total["lost_cost_usd"])),
            )
        )
    return sorted(found, key=lambda each: (-each.spent_usd, -each.total_usd, each.job_id))


def _entries(
    store: RecordReader,
    alert: Row,
    around: Sequence[Row],
    jobs: Sequence[str],
    deliveries: Iterable[Row],
    span: tuple[int, int],
) -> tuple[list[Row], list[TimelineEntry]]:
    """The controls that are for the alert, and all that happened, the oldest first."""
    from_ms, until_ms = span
    dimensions = (
        {row["job_id"]: row for row in store.records(acts.DIMENSIONS, jobs=list(jobs))} if jobs else {}
    )
    facts = acts.facts_of(alert, dimensions)
    records = store.records(acts.RECORDS_BY, at_ms=until_ms)
    ids = [str(row["alert_id"]) for row in around]
    attempts = store.records(sql.ATTEMPTS, jobs=list(jobs)) if jobs else []
    changes = store.records(sql.SIZES, jobs=list(jobs), from_ms=from_ms, until_ms=until_ms) if jobs else []
    actions = store.records(sql.ACTIONS, alerts=ids, jobs=list(jobs), from_ms=from_ms, until_ms=until_ms)
    found = [
        *attempts_of(attempts, from_ms, until_ms, sizes_of(changes, until_ms)),
        *alerts_of(around),
        *messages_of(deliveries, {str(row["alert_id"]): str(row["rule"]) for row in around}),
        *controls_of(alert, records, facts, until_ms),
        *actions_of(actions),
    ]
    acted: list[Row] = [row for row in records if acts.touching(alert, [row], facts, until_ms)]
    return acted, sorted(found, key=lambda each: each.at_ms)


def _evidence(store: RecordReader, alert: Row) -> Evidence:
    """The rows behind an alert. A statement of a rule by SQL may be anybody's: it is shown, and not asked."""
    statement = str(alert["evidence_sql"])
    if not statement:
        return Evidence("", [], [], 0, "the rule names no query")
    if is_by_sql(str(alert["rule"])):
        return Evidence(statement, [], [], 0, "a rule by SQL: its statement is not asked again")
    try:
        rows = store.records(statement)
    except SinkError as fault:
        return Evidence(statement, [], [], 0, f"the query is not answered: {fault}")
    columns = list(rows[0]) if rows else []
    return Evidence(statement, columns, [list(row.values()) for row in rows[:EVIDENCE_MAX]], len(rows), "")


def _earlier(
    store: RecordReader, histories: Sequence[MarginHistory], about: Row | None, others: Sequence[Row]
) -> list[EarlierRule]:
    if about is None or not histories:
        return []
    until_ms = int(about["started_ms"]) // MINUTE_MS * MINUTE_MS
    span = {"from_ms": histories[0].from_ms // MINUTE_MS * MINUTE_MS, "until_ms": until_ms}
    minutes = store.records(sql.MINUTES, job=about["subject_name"], **span)
    return earlier(histories, about, others, minutes)
