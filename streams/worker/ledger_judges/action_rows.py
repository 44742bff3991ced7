"""Rows of `actions`: built, read back, and the message that a request is sent as."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, cast

import msgspec
import pyarrow as pa

from schemas.budget_tables import ACTIONS
from schemas.columns import instants, rows_of, values_of
from schemas.escaping import utf8_text, visible
from schemas.messages.action import ActionBudget, ActionData, ActionJob, ActionName, ActionRequested
from schemas.messages.alert import AlertSubject
from schemas.tables import SCHEMAS
from sinks.rows import Condition, Rows
from streams.engine.ledger_rules.budget_actions import FINAL, REQUESTED, DueAction
from streams.engine.ledger_rules.budget_alert import whose
from streams.engine.ledger_rules.findings import budget_alert_id
from streams.engine.ledger_rules.periods import named
from streams.engine.rules.budget_used import BUDGET_USED, THRESHOLDS
from streams.engine.rules.formatting import usd as shown_usd
from streams.notify.history import pieces
from streams.notify.json_forms import rfc3339, usd
from streams.worker.ledger_judges.rule_rows import usd_column


class ActionRow(NamedTuple):
    """One state of one request; money in nano-dollars."""

    time_ms: int
    idempotency_key: str
    budget: str
    period_start_ms: int
    job_id: str
    rung: str
    mode: str
    state: str
    attempt: int  # 0: of the meter's own, before anything was sent
    spent_nano: int
    limit_nano: int
    used_ratio: float
    alert_id: str
    detail: str


_TEXTS: Final = ("idempotency_key", "budget", "job_id", "rung", "mode", "state", "alert_id", "detail")


def row_of(action: DueAction, spent_nano: int, ratio: float) -> ActionRow:
    """Build the row of an escalation step."""
    return ActionRow(
        time_ms=action.at_ms,
        idempotency_key=action.key,
        budget=action.subject.budget.name,
        period_start_ms=action.period.start_ms,
        job_id=action.job.run.job_id,
        rung=action.escalation.action,
        mode=action.mode,
        state=action.state,
        attempt=0,
        spent_nano=spent_nano,
        limit_nano=action.subject.budget.limits.usd_nano or 0,
        used_ratio=ratio,
        alert_id=alert_of(action, ratio),
        detail=action.detail,
    )


def alert_of(action: DueAction, ratio: float) -> str:
    """The id of the alert that explains it: that of the highest threshold reached."""
    reached = [percent for percent in THRESHOLDS if ratio * 100 >= percent]
    return budget_alert_id(BUDGET_USED, action.subject, max(reached, default=min(THRESHOLDS)), action.period)


def action_table(rows: Sequence[ActionRow], version: int) -> pa.Table:
    """Build rows of `actions`."""
    columns: dict[str, object] = {name: [getattr(row, name) for row in rows] for name in _TEXTS}
    columns |= {
        "time": instants([row.time_ms for row in rows]),
        "period_start": instants([row.period_start_ms for row in rows]),
        "attempt": pa.array([row.attempt for row in rows], pa.uint32()),
        "spent_usd": usd_column([row.spent_nano for row in rows]),
        "limit_usd": usd_column([row.limit_nano for row in rows]),
        "used_ratio": [row.used_ratio for row in rows],
        "version": pa.array([version] * len(rows), pa.uint64()),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS[ACTIONS])


def stored_actions(store: Rows, keys: Collection[str]) -> list[ActionRow]:
    """Read what is stored of these requests, in all modes; blocks."""
    found: list[ActionRow] = []
    for some in pieces(sorted(keys)):
        for row in rows_of(store.select(ACTIONS, [Condition("idempotency_key", "in", some)])):
            texts = {name: row[name] for name in _TEXTS}
            found.append(
                ActionRow(
                    time_ms=round(row["time"].timestamp() * 1000),
                    period_start_ms=round(row["period_start"].timestamp() * 1000),
                    attempt=row["attempt"],
                    spent_nano=int(row["spent_usd"].scaleb(9)),
                    limit_nano=int(row["limit_usd"].scaleb(9)),
                    used_ratio=row["used_ratio"],
                    **texts,
                )
            )
    return found


def open_requests(store: Rows, since_ms: int) -> list[ActionRow]:
    """Read the requests since an instant that have no outcome; blocks."""
    asked = [
        Condition("mode", "=", "live"),
        Condition("state", "=", REQUESTED),
        Condition("time", ">=", since_ms),
    ]
    keys = values_of(store.select(ACTIONS, asked, ("idempotency_key",))["idempotency_key"])
    rows = [row for row in stored_actions(store, set(keys)) if row.mode == "live"]
    done = {row.idempotency_key for row in rows if row.state in FINAL and row.attempt}
    return [row for row in rows if row.state == REQUESTED and row.idempotency_key not in done]


def action_body(action: DueAction, row: ActionRow, grace_ms: int) -> bytes:
    """The message; the same request always gives the same bytes."""
    run, budget = action.job.run, action.subject.budget
    data = ActionData(
        idempotency_key=row.idempotency_key,
        action=cast("ActionName", row.rung),
        job=ActionJob(
            job_id=utf8_text(run.job_id),
            cluster=utf8_text(action.job.cluster),
            owner=utf8_text(run.owner),
            team=utf8_text(run.team),
            project=utf8_text(run.project),
            experiment=utf8_text(run.experiment),
        ),
        budget=ActionBudget(
            name=utf8_text(budget.name),
            subject=AlertSubject(kind=action.subject.kind, name=utf8_text(action.subject.name)),
            per=budget.per,
            period_start_ms=row.period_start_ms,
            limit_usd=None if budget.limits.usd_nano is None else usd(budget.limits.usd_nano),
            spent_usd=usd(row.spent_nano),
            used_ratio=row.used_ratio,
        ),
        alert_id=row.alert_id,
        grace_s=grace_ms // 1000,
        next_action=None if action.following is None else cast("ActionName", action.following.action),
        reason=visible(_reason(action, row)),
    )
    return msgspec.json.encode(
        ActionRequested(type="action.requested", timestamp=rfc3339(row.time_ms), data=data)
    )


def _reason(action: DueAction, row: ActionRow) -> str:
    name = action.subject.budget.name
    budget = f"budget {name}" if name else "its own budget"
    what = f"{100 * row.used_ratio:.1f} % used, {shown_usd(row.spent_nano)} spent"
    return f"{whose(action.subject)}: {budget} for {named(action.subject.budget.per, action.period, action.subject.budget.calendar)} is {what}"
