"""Reads from the tables which messages of an alert or a receipt were sent and which are still owed.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from schemas.budget_tables import BUDGET_USE
from schemas.column_types import MILLI
from schemas.columns import rows_of, times_as_integers
from schemas.receipt_table import RECEIPTS
from schemas.tables import ALERTS, BURN_RATES, DELIVERIES, JOBS, PRICES
from schemas.units import nano_of_usd
from sinks.rows import Condition, Rows
from streams.engine.alerts.alert import FIRING, RESOLVED, Alert
from streams.engine.alerts.receiver_records import ESCALATED
from streams.engine.ledger_rules.incidents import EXPLAINED_MS
from streams.engine.rules.lineage import RunJob, RunKey, run_job, run_key
from streams.engine.rules.price_jump import RULE as PRICE_JUMP
from streams.engine.rules.run_jobs import LaterTries
from streams.engine.rules.shared_cause import parts_of
from streams.engine.rules.team_burn import RULE as TEAM_BURN
from streams.engine.timeline.states import HOLDING_STATES
from streams.notify.notice import ISSUED, notice_of
from streams.notify.run_rows import later_tries_of
from streams.notify.shared_cause_row import SharedCauseRow

#: Of what is withheld until its figure is beyond what is usual for its kind: nobody was sent anything, and it may go on.
USUAL: Final = "usual"
#: Of what waits longer than SAID_FROM_MS, for others or for the next message of its group: nothing was sent or ended.
WAITING: Final = "waiting"
#: A shorter wait is over before anybody asks.
SAID_FROM_MS: Final = 30_000
# Outcomes after which a message is not sent again; the second set concerns the message as a whole.
FINAL: Final = frozenset(("delivered", "repeated", "superseded", "failed", "refused", "unsupported"))
FINAL_FOR_ALL: Final = frozenset(("silenced", "digest", "no_receiver", "in_incident"))
AT_ONCE: Final = 500  # rows of a page, and texts in one condition
_SHARED: Final = (
    "shared_cause",
    "alert_id",
    "rule",
    "subject_kind",
    "subject_name",
    "started",
    "resolved",
    "owner",
    "stood_since",
)
#: Of the texts of one condition: ClickHouse refuses a parameter of more than 128 KiB, and quotes in it are escaped.
_PARAMETER_BYTES: Final = 65_536
#: Receipts of all jobs are kept by its owner.
RECEIPT_SHARD: Final = 0
_INSTANTS: Final = dict.fromkeys(
    (
        "time",
        "started",
        "resolved",
        "held",
        "changed",
        "ticket_since",
        "page_since",
        "quiet_since",
        "stood_since",
    ),
    MILLI,
)


_OF_BUDGET: Final = dict.fromkeys(("time", "period_start", "period_end"), MILLI)


@dataclass
class DeliveryHistory:
    """The past attempts of one message."""

    closed: bool = False
    finals: set[str] = field(default_factory=set)  # receivers with a final outcome
    attempts: dict[str, int] = field(default_factory=dict)  # by receiver
    final_ms: dict[str, int] = field(default_factory=dict)  # of those, the instant of the last one

    def add(self, receiver: str, attempt: int, outcome: str, time_ms: int) -> None:
        """Add one row."""
        if outcome in (USUAL, WAITING):
            return
        self.closed |= outcome in FINAL_FOR_ALL
        self.attempts[receiver] = max(self.attempts.get(receiver, 0), attempt)
        if outcome in FINAL:
            self.finals.add(receiver)
            self.final_ms[receiver] = max(self.final_ms.get(receiver, 0), time_ms)

    def merge(self, other: DeliveryHistory) -> None:
        """Add what another source knows of the message."""
        self.closed |= other.closed
        self.finals |= other.finals
        for receiver, attempt in other.attempts.items():
            self.attempts[receiver] = max(self.attempts.get(receiver, 0), attempt)
        for receiver, time_ms in other.final_ms.items():
            self.final_ms[receiver] = max(self.final_ms.get(receiver, 0), time_ms)

    def settled(self, receivers: Collection[str]) -> bool:
        """Whether no receiver is still owed the message.

        Once every receiver is settled, an address that the owner adds later gets no old message.
        """
        # Those to whom it went on owe nothing to the others, and are owed by their own step.
        own = {name for name in self.attempts if ESCALATED not in name}
        all_settled = own <= self.finals and len(own) >= len(receivers)
        return self.closed or (bool(own) and all_settled)


class StoredAlerts(NamedTuple):
    """An alert as stored in the table."""

    alert: Alert
    shard: int


class AlertCursor(NamedTuple):
    """Position in the alerts that are owed: alerts of this status up to this id; firing ones first, receipts last."""

    status: str = FIRING
    after: str = ""


class StoredDeliveries:
    """Reads `alerts` and `deliveries`."""

    def __init__(self, store: Rows) -> None:
        self._store = store

    def histories(self, alert_ids: Collection[str]) -> dict[str, DeliveryHistory]:
        """The histories of these alerts' messages, by webhook id; a message never attempted has none."""
        found: dict[str, DeliveryHistory] = {}
        names = ("webhook_id", "receiver", "attempt", "outcome", "time")
        for ids in pieces(sorted(set(alert_ids))):
            for row in _rows(self._store.select(DELIVERIES, [Condition("alert_id", "in", ids)], names)):
                history = found.setdefault(row["webhook_id"], DeliveryHistory())
                history.add(row["receiver"], row["attempt"], row["outcome"], row["time"])
        return found

    def owed(
        self, shards: Collection[int], resolved_since_ms: int | None, place: AlertCursor
    ) -> tuple[list[StoredAlerts], AlertCursor | None]:
        """A page of the shards' firing alerts, then of those resolved since `resolved_since_ms` (None: at any time).

        The receipts judged since then come last, with shard 0.

        Returns:
            The page, and where the next one begins; None after the last.
        """
        if place.status == ISSUED:
            notices = self._notices(resolved_since_ms, place.after) if RECEIPT_SHARD in shards else []
            last = notices[-1].alert.alert_id if len(notices) == AT_ONCE else None
            return notices, None if last is None else AlertCursor(ISSUED, last)
        where = [Condition("shard", "in", sorted(shards)), Condition("status", "=", place.status)]
        if place.status == RESOLVED and resolved_since_ms is not None:
            where.append(Condition("changed", ">=", resolved_since_ms))
        found = self._page(where, place.after)
        if len(found) == AT_ONCE:
            return found, AlertCursor(place.status, found[-1].alert.alert_id)
        return found, AlertCursor(RESOLVED if place.status == FIRING else ISSUED)

    def _notices(self, since_ms: int | None, after: str) -> list[StoredAlerts]:
        where = [Condition("receipt_id", ">", after)]
        if since_ms is not None:
            where.append(Condition("time", ">=", since_ms))
        page = self._store.select(RECEIPTS, where, ("message", "owner"), limit=AT_ONCE)
        return [
            StoredAlerts(notice_of(row["message"].encode(), row["owner"]), RECEIPT_SHARD)
            for row in rows_of(page)
        ]

    def paged_teams(self) -> frozenset[str]:
        """The teams about which `team_burn` pages, if no silence covers the page.

        A budget pages until its period is over: for so long no ticket may be muted.
        """
        where = [
            Condition("rule", "=", TEAM_BURN.name),
            Condition("subject_kind", "=", "team"),
            Condition("status", "=", FIRING),
            Condition("severity", "=", "page"),
        ]
        rows = rows_of(self._store.select(ALERTS, where, ("subject_name", "silenced")))
        return frozenset(row["subject_name"] for row in rows if not row["silenced"])

    def last_of_subjects(self, kind: str, shard: int) -> dict[tuple[str, str], Alert]:
        """The last alert of a shard about each subject of this kind, by (rule, subject)."""
        where = [Condition("shard", "=", shard), Condition("subject_kind", "=", kind)]
        last: dict[tuple[str, str], Alert] = {}
        after: str | None = ""
        while after is not None:
            page = self._page(where, after)
            for alert, _ in page:
                key = alert.rule, alert.subject_name
                if key not in last or last[key].changed_ms <= alert.changed_ms:
                    last[key] = alert
            after = page[-1].alert.alert_id if len(page) == AT_ONCE else None
        return last

    def firing_of_rules(self, rules: Sequence[str], shard: int) -> list[Alert]:
        """The firing alerts of these rules of a shard."""
        return self._of_rules(rules, shard, Condition("status", "=", FIRING))

    def changed_of_rules(self, rules: Sequence[str], shard: int, since_ms: int) -> list[Alert]:
        """The alerts of these rules of a shard whose last change was at `since_ms` or later."""
        return self._of_rules(rules, shard, Condition("changed", ">=", since_ms))

    def of_rules_between(self, first: str, end: str, shard: int, since_ms: int | None = None) -> list[Alert]:
        """The alerts of a shard of rules whose names are in [first, end): those that fire, or that changed since then."""
        which = Condition("status", "=", FIRING) if since_ms is None else Condition("changed", ">=", since_ms)
        names = [Condition("rule", ">=", first), Condition("rule", "<", end)]
        return self._all_pages([Condition("shard", "=", shard), which, *names])

    def _of_rules(self, rules: Sequence[str], shard: int, which: Condition) -> list[Alert]:
        return self._all_pages([Condition("shard", "=", shard), which, Condition("rule", "in", list(rules))])

    def _all_pages(self, where: Sequence[Condition]) -> list[Alert]:
        found: list[Alert] = []
        after: str | None = ""
        while after is not None:
            page = self._page(where, after)
            found += [alert for alert, _ in page]
            after = page[-1].alert.alert_id if len(page) == AT_ONCE else None
        return found

    def rates_of(self, jobs: Collection[str], since_ms: int) -> dict[str, int]:
        """What each of these jobs pays, by its newest burn rate since then, in nano-dollars per hour; without one it is left out."""
        found: dict[str, tuple[int, int]] = {}
        for some in pieces(sorted(set(jobs))):
            where = [Condition("job_id", "in", some), Condition("time", ">=", since_ms)]
            page = self._store.select(BURN_RATES, where, ("job_id", "time", "usd_per_hour_now"))
            for row in _rows(page):
                rate = row["time"], nano_of_usd(row["usd_per_hour_now"])
                found[row["job_id"]] = max(rate, found.get(row["job_id"], rate))
        return {job_id: nano for job_id, (_, nano) in found.items()}

    def later_tries(self, alerts: Collection[Alert]) -> dict[str, LaterTries]:
        """What followed each of these alerts about the tries of a run, by its id."""
        return later_tries_of(self._store, alerts)

    def budgets_of(self, subjects: Collection[str], since_ms: int) -> list[dict[str, Any]]:
        """What is used of the budgets of these subjects, of those that were judged since then, as `budget_now` reads it."""
        found: list[dict[str, Any]] = []
        for some in pieces(sorted(set(subjects))):
            where = [Condition("subject_name", "in", some), Condition("time", ">=", since_ms)]
            page = times_as_integers(self._store.select(BUDGET_USE, where), _OF_BUDGET)
            found += (row | {f"{name}_ms": row[name] for name in _OF_BUDGET} for row in rows_of(page))
        return found

    def of_causes(self, causes: Collection[str], since_ms: int) -> list[SharedCauseRow]:
        """The alerts with these causes whose episodes began at `since_ms` or later."""
        found: list[SharedCauseRow] = []
        for some in pieces(sorted(causes)):
            where = [Condition("shared_cause", "in", some), Condition("started", ">=", since_ms)]
            page = self._store.select(ALERTS, where, _SHARED)
            found += (
                SharedCauseRow(
                    row["shared_cause"],
                    row["alert_id"],
                    row["rule"],
                    row["subject_kind"],
                    row["subject_name"],
                    row["started"],
                    row["resolved"],
                    row["owner"],
                    row["stood_since"],
                )
                for row in _rows(page)
            )
        return found

    def clusters_of(self, jobs: Collection[str]) -> dict[str, str]:
        """The cluster of each of these jobs, as far as it is known."""
        found: dict[str, str] = {}
        for some in pieces(sorted(set(jobs))):
            page = self._store.select(JOBS, [Condition("job_id", "in", some)], ("job_id", "cluster"))
            found |= {row["job_id"]: row["cluster"] for row in rows_of(page) if row["cluster"]}
        return found

    def pools_of(self, jobs: Collection[str]) -> dict[str, tuple[str, str]]:
        """The cluster, and the type of nodes or else of GPUs, of each of these jobs; '': not known."""
        found: dict[str, tuple[str, str]] = {}
        names = ("job_id", "cluster", "instance_type", "gpu_type")
        for some in pieces(sorted(set(jobs))):
            for row in rows_of(self._store.select(JOBS, [Condition("job_id", "in", some)], names)):
                found[row["job_id"]] = row["cluster"], row["instance_type"] or row["gpu_type"]
        return found

    def owners_in(self, clusters: Collection[str]) -> dict[str, set[str]]:
        """Who has jobs that hold something in each of these clusters; '' is nobody."""
        found: dict[str, set[str]] = {}
        for some in pieces(sorted(clusters)):
            where = [Condition("cluster", "in", some), Condition("state", "in", HOLDING_STATES)]
            for row in rows_of(self._store.select(JOBS, where, ("cluster", "owner"))):
                if row["owner"]:
                    found.setdefault(row["cluster"], set()).add(row["owner"])
        return found

    def jumped_prices(self, alerts: Collection[Alert]) -> set[str]:
        """Of these alerts, which a price explains: the ids of those before which it had jumped so far that `price_jump` tells of it."""
        began_ms: dict[str, list[Alert]] = {}
        for alert in alerts:
            began_ms.setdefault(parts_of(alert.shared_cause)[1], []).append(alert)
        revisions: dict[str, list[tuple[int, Decimal]]] = {}
        for some in pieces(sorted(began_ms)):
            page = self._store.select(PRICES, [Condition("sku", "in", some)], ("sku", "effective", "usd"))
            for row in rows_of(times_as_integers(page, {"effective": MILLI})):
                revisions.setdefault(row["sku"], []).append((row["effective"], row["usd"]))
        return {
            alert.alert_id
            for sku, of_sku in revisions.items()
            for alert in began_ms.get(sku, ())
            if _has_jumped(sorted(of_sku), alert.started_ms)
        }

    def about_subjects(
        self, rules: Collection[str], subjects: Collection[str], since_ms: int = 0
    ) -> list[Alert]:
        """The alerts of these rules about these subjects whose last change was at `since_ms` or later, those that have ended too."""
        found: list[Alert] = []
        for some in pieces(sorted(set(subjects))):
            where = [Condition("rule", "in", sorted(rules)), Condition("subject_name", "in", some)]
            where.append(Condition("changed", ">=", since_ms))
            found += (_alert(row) for row in _rows(self._store.select(ALERTS, where)))
        return found

    def about_runs(self, rules: Collection[str], jobs: Collection[str], since_ms: int) -> list[Alert]:
        """The alerts of these rules about other jobs of the runs of these, each as if it were about this job of its run."""
        mine = self._run_keys(jobs)
        owners = sorted({key.owner for key in mine.values()})
        found: list[Alert] = []
        for some in pieces(owners):
            where = [Condition("rule", "in", sorted(rules)), Condition("owner", "in", some)]
            page = self._store.select(ALERTS, [*where, Condition("started", ">=", since_ms)])
            found += map(_alert, _rows(page))
        theirs = self._run_keys(alert.subject_name for alert in found)
        return [
            msgspec.structs.replace(alert, subject_name=job)
            for alert in found
            for job, key in mine.items()
            if job != alert.subject_name and theirs.get(alert.subject_name) == key
        ]

    def _run_keys(self, jobs: Iterable[str]) -> dict[str, RunKey]:
        """What these jobs' runs are known by, of those that are of one."""
        found: dict[str, RunKey] = {}
        for some in pieces(sorted(set(jobs))):
            for row in rows_of(self._store.select(JOBS, [Condition("job_id", "in", some)], RunJob._fields)):
                key = run_key(run_job(row))
                if key is not None:
                    found[row["job_id"]] = key
        return found

    def labels_of(self, jobs: Collection[str]) -> dict[str, dict[str, str]]:
        """The labels of these jobs, by id; one that was never stored has none."""
        found: dict[str, dict[str, str]] = {}
        for some in pieces(sorted(jobs)):
            for row in rows_of(
                self._store.select(JOBS, [Condition("job_id", "in", some)], ("job_id", "labels"))
            ):
                found[row["job_id"]] = dict(row["labels"])
        return found

    def alerts_of(self, alert_ids: Collection[str]) -> dict[str, Alert]:
        """The rows of these alerts, by id; one that was never stored has none."""
        found: dict[str, Alert] = {}
        for ids in pieces(sorted(set(alert_ids))):
            page = self._store.select(ALERTS, [Condition("alert_id", "in", ids)])
            found |= {row["alert_id"]: _alert(row) for row in _rows(page)}
        return found

    def _page(self, where: Sequence[Condition], after: str) -> list[StoredAlerts]:
        """The next alerts by id, as currently stored."""
        page = self._store.select(ALERTS, [*where, Condition("alert_id", ">", after)], limit=AT_ONCE)
        return [StoredAlerts(_alert(row), row["shard"]) for row in _rows(page)]


class RecentDeliveries:
    """Recent attempts of this process, including rows not stored yet; the oldest are evicted first."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._histories: OrderedDict[str, DeliveryHistory] = OrderedDict()
        self._changes: OrderedDict[str, int] = OrderedDict()

    def add(self, webhook_id: str, receiver: str, attempt: int, outcome: str, time_ms: int) -> None:
        """Add one row."""
        history = self._histories.setdefault(webhook_id, DeliveryHistory())
        history.add(receiver, attempt, outcome, time_ms)
        self._histories.move_to_end(webhook_id)
        if len(self._histories) > self._at_most:
            self._histories.popitem(last=False)

    def history(self, webhook_id: str) -> DeliveryHistory:
        """What is known of a message."""
        return self._histories.get(webhook_id, DeliveryHistory())

    def overtaken(self, alert: Alert) -> bool:
        """Whether a later change of the alert was seen already; if not, this one is recorded as the latest."""
        latest_ms = self._changes.get(alert.alert_id, alert.changed_ms)
        if alert.changed_ms < latest_ms:
            return True
        self._changes[alert.alert_id] = alert.changed_ms
        self._changes.move_to_end(alert.alert_id)
        if len(self._changes) > self._at_most:
            self._changes.popitem(last=False)
        return False


def _alert(row: Mapping[str, Any]) -> Alert:
    return Alert(
        alert_id=row["alert_id"],
        rule=row["rule"],
        severity=row["severity"],
        status=row["status"],
        subject_kind=row["subject_kind"],
        subject_name=row["subject_name"],
        owner=row["owner"],
        team=row["team"],
        project=row["project"],
        started_ms=row["started"],
        resolved_ms=row["resolved"],
        ratio=row["ratio"],
        usd_nano_per_hour=nano_of_usd(row["usd_per_hour"]),
        expected_nano_per_hour=nano_of_usd(row["expected_usd_per_hour"]),
        cost_nano=nano_of_usd(row["cost_usd"]),
        window_ms=row["window_ms"],
        summary=row["summary"],
        evidence_sql=row["evidence_sql"],
        held_ms=row["held"],
        changed_ms=row["changed"],
        firings=row["firings"],
        silenced=row["silenced"],
        budget_nano=None if row["budget_usd"] is None else nano_of_usd(row["budget_usd"]),
        exhausted_in_ms=None if row["exhausted_in_s"] is None else row["exhausted_in_s"] * 1000,
        shared_cause=row["shared_cause"],
        opened_nano_per_hour=nano_of_usd(row["opened_usd_per_hour"]),
        ticket_ms=row["ticket_since"],
        page_ms=row["page_since"],
        openings=tuple(row["openings"]),
        quiet_ms=row["quiet_since"],
        margins=row["margins"],
        stood_ms=row["stood_since"],
    )


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows with their instants in ms since 1970."""
    return [*rows_of(times_as_integers(table, _INSTANTS))]


def _has_jumped(revisions: Sequence[tuple[int, Decimal]], at_ms: int) -> bool:
    """Whether the price in force at an instant is far above the one before it, by the factor that holds unless a record sets another."""
    known = [(from_ms, usd) for from_ms, usd in revisions if from_ms <= at_ms][-2:]
    if len(known) < 2 or known[1][0] < at_ms - EXPLAINED_MS:
        return False
    return known[1][1] > Decimal(str(PRICE_JUMP.thresholds["factor"].default)) * known[0][1] > 0


def pieces(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split ids or causes, which are ASCII, into parts that fit one condition each."""
    part: list[str] = []
    size_bytes = 0
    for text in texts:
        if part and (len(part) == AT_ONCE or size_bytes + len(text) > _PARAMETER_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(text)
        size_bytes += len(text)
    if part:
        yield part
