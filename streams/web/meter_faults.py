"""What is wrong with a meter, with what mends it: by its status and by what the store says, in the order of urgency.

Limits are those of the shipped alerts (deploy/prometheus/trainfare-rules.yml).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.counting import how_many
from schemas.durations import MINUTE_MS
from schemas.lengths import duration
from schemas.validate_sources import NOT_UNDERSTOOD
from streams.selfcheck.audit.verdict import Verdict
from streams.worker.health.worker_status import Check, WorkerStatus

#: A topic this far behind.
LAG_MS: Final = MINUTE_MS
NO_PROGRESS_MS: Final = MINUTE_MS
CHECKPOINT_MS: Final = 2 * MINUTE_MS
LEDGER_RULES_MS: Final = 3 * MINUTE_MS
AUDIT_MS: Final = 5 * MINUTE_MS
CANARY_MS: Final = 10 * MINUTE_MS
_BACKLOG_RATIO: Final = 0.8
#: What mends a check of readiness that does not hold.
_CHECKS: Final[Mapping[str, tuple[str, str]]] = {
    "kafka": (
        "see that Kafka runs and that its address is right: trainfare config check",
        "trouble.md#kafka-unavailable",
    ),
    "clickhouse": (
        "see that ClickHouse runs and that its address is right: trainfare config check; what was read waits for it",
        "trouble.md#store-unavailable",
    ),
    "group": ("wait a minute; else see that Kafka lets the worker join its group", "trouble.md#waiting-at-start"),
    "clock": ("set the clock right (NTP), of this machine or of the brokers", "trouble.md#self-monitoring"),
    "shards": ("wait: their state is being loaded from the store", "trouble.md#health-and-metrics"),
    "owners": ("start as many workers as the group had, or wait until they have joined", "trouble.md#shards-without-an-owner"),
    "transactions": ("find the producer that left a transaction open, and end it", "trouble.md#lag"),
    "progress": ("look at the store and at the log of the worker; it restarts where only that helps", "trouble.md#lag"),
}  # fmt: skip


class MeterFault(NamedTuple):
    """One thing that is wrong."""

    what: str  # which part: a name that stays
    said: str
    mends: str
    docs: str  # where more stands


def faults(status: WorkerStatus, checks: Sequence[Check], verdict: Verdict | None) -> list[MeterFault]:
    """What is wrong by the worker's own status, the audit included."""
    return [
        *_checks(checks),
        *_books(status, verdict),
        *_canary(status),
        *_pace(status),
        *_other(status),
    ]


def stored_faults(stored: Mapping[str, Any]) -> list[MeterFault]:
    """What is wrong by the store: sources, dead letters, unpriced quantities, deliveries."""
    return [*_deliveries(stored), *_letters(stored), *_unpriced(stored), *_sources(stored)]


def _fault(what: str, said: str, mends: str, docs: str) -> MeterFault:
    return MeterFault(what, said, mends, f"docs/{docs}")


def _checks(checks: Sequence[Check]) -> Iterator[MeterFault]:
    for check in checks:
        if not check.ok:
            mends, docs = _CHECKS.get(
                check.name, ("see the log of the worker", "trouble.md#health-and-metrics")
            )
            yield _fault(f"check {check.name}", check.detail, mends, docs)


def _books(status: WorkerStatus, verdict: Verdict | None) -> Iterator[MeterFault]:
    recount = "see which rows are wrong: trainfare audit --recount FROM TO; --repair rewrites them"
    for finding in verdict.faults if verdict is not None else ():
        yield _fault(
            f"audit {finding.check}",
            f"{finding.subject}: expected {finding.expected}, found {finding.found}",
            f"{finding.detail}; {recount}",
            "audit.md#audit",
        )
    age_ms = status.audit_age_ms
    if age_ms is not None and age_ms > AUDIT_MS:
        said = f"the books were last looked at {duration(age_ms)} ago"
        yield _fault(
            "audit", said, "see the log of the worker, and that it is not overloaded", "audit.md#audit"
        )


def _canary(status: WorkerStatus) -> Iterator[MeterFault]:
    canary = status.canary
    if canary is None:
        return
    right_ms = canary.right_age_ms
    if canary.wrong and (right_ms is None or right_ms > CANARY_MS):
        yield _fault(
            "canary",
            f"{canary.wrong} of {canary.runs} jobs of known cost were metered wrong",
            "stop trusting new figures; the evidence of the alert canary_wrong has both costs",
            "audit.md#canary",
        )
    elif canary.runs and (right_ms is None or right_ms > CANARY_MS):
        since = (
            "none was right yet" if right_ms is None else f"the last one was right {duration(right_ms)} ago"
        )
        yield _fault(
            "canary",
            f"a job of known cost came late: {since}",
            "see Lag below and the worker's log",
            "audit.md#canary",
        )


def _pace(status: WorkerStatus) -> Iterator[MeterFault]:
    slow = "see that the worker and the store have room (processor, disk); more workers share the partitions"
    for topic, age_ms in sorted(status.lag_ms.items()):
        if age_ms > LAG_MS:
            said = f"{topic}: {how_many(status.lag_records.get(topic, 0), 'record')} behind, the oldest of {duration(age_ms)} ago"
            yield _fault(f"lag {topic}", said, slow, "trouble.md#lag")
    if status.no_progress_ms > NO_PROGRESS_MS:
        said = f"a shard that is behind has metered nothing for {duration(status.no_progress_ms)}"
        yield _fault("progress", said, slow, "trouble.md#lag")
    age_ms = status.checkpoint_age_ms or 0
    if age_ms > CHECKPOINT_MS:
        said = f"nothing that was read has been stored for {duration(age_ms)}"
        yield _fault(
            "checkpoint",
            said,
            "see that ClickHouse takes inserts: its log, its disk",
            "trouble.md#store-unavailable",
        )
    if status.ledger_rules_lag_ms > LEDGER_RULES_MS:
        said = f"budgets and rules across jobs are {duration(status.ledger_rules_lag_ms)} behind"
        yield _fault("ledger_rules", said, "see which shard is late", "trouble.md#rules-across-jobs")
    is_full = status.backlog_bytes > _BACKLOG_RATIO * status.max_backlog_bytes > 0
    if is_full or status.reading_paused:
        said = f"{status.backlog_bytes:,} of {status.max_backlog_bytes:,} bytes wait for the store"
        yield _fault(
            "backlog", f"{said}{', reading pauses' if status.reading_paused else ''}", slow, "trouble.md#lag"
        )
    unread = sum(status.reference_lag_records.values())
    if unread:
        said = f"{unread:,} prices and controls are not read yet"
        yield _fault(
            "reference", said, "wait; else see the topics prices and controls", "runbook.md#unpriced-gpu-time"
        )


def _other(status: WorkerStatus) -> Iterator[MeterFault]:
    if status.stuck:
        yield _fault("stuck", status.stuck, "restart the worker", "trouble.md#metering-stopped")
    if status.shards_unowned:
        mends, docs = _CHECKS["owners"]
        yield _fault("owners", f"{status.shards_unowned} shards have no owner", mends, docs)
    if status.reference_refused:
        said = f"{status.reference_refused:,} prices or controls were refused since the worker began"
        yield _fault(
            "reference refused",
            said,
            "trainfare dead-letters list --topic prices, and controls",
            "trouble.md#control-has-no-effect",
        )
    if status.costs_capped:
        said = f"{status.costs_capped:,} rows cost more than a row can hold"
        yield _fault(
            "capped",
            said,
            "look for a price or a quantity that is far too large",
            "runbook.md#unpriced-gpu-time",
        )
    if status.own_rules_failed:
        said = f"rules by SQL could not be judged, or only in part, {status.own_rules_failed:,} times"
        yield _fault(
            "own rules",
            said,
            "the log of the worker names the rule and the reason",
            "trouble.md#rule-by-sql-failed",
        )
    for call, count in sorted(status.delivery_faults.items()):
        if count:
            said = f"{call} failed {how_many(count, 'time')}; each is tried again"
            yield _fault(
                f"deliveries {call}", said, "see that ClickHouse answers", "trouble.md#messages-not-delivered"
            )


def _deliveries(stored: Mapping[str, Any]) -> Iterator[MeterFault]:
    outcomes = stored.get("deliveries_lately") or {}
    for outcome, words, mends in (
        ("failed", "given up", "try the address of an owner: trainfare alerts test NAME"),
        (
            "no_receiver",
            "without an address",
            "give its owner an address (trainfare apply), and who has none alerts.default_webhook",
        ),
    ):
        if count := outcomes.get(outcome, 0):
            said = f"{how_many(count, 'message')} of the last days {words}"
            yield _fault(
                f"deliveries {outcome}",
                said,
                mends,
                "trouble.md#messages-not-delivered",
            )


def _letters(stored: Mapping[str, Any]) -> Iterator[MeterFault]:
    for each in stored.get("dead_letters") or ():
        left = each["records"] - each["replayed"]
        if left and each["is_recent"]:
            said = f"{how_many(left, 'record')} of {each['topic']} refused: {each['reason']}"
            yield _fault(
                f"dead letters {each['topic']} {each['reason']}",
                said,
                each["advice"],
                "dead_letters.md#dead-letters",
            )


def _unpriced(stored: Mapping[str, Any]) -> Iterator[MeterFault]:
    for each in stored.get("unpriced") or ():
        name = each["gpu_type"] or each["instance_type"] or each["component"]
        said = f"{each['amount']} of {name} without a price: {how_many(each['jobs'], 'job')} of the last days"
        yield _fault(f"unpriced {each['component']}", said, each["mends"], "runbook.md#unpriced-gpu-time")


def _sources(stored: Mapping[str, Any]) -> Iterator[MeterFault]:
    for account in stored.get("sources") or ():
        for each in account["entries"]:
            if each["entry_class"] == NOT_UNDERSTOOD and each["standing"]:
                said = f"{account['name']}: {how_many(each['entries'], 'entry', 'entries')} not understood: {each['reason']}"
                yield MeterFault(
                    f"source {account['name']}", said, each["says"], "docs/sources.md#all-sources"
                )
