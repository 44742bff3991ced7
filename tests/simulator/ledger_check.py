"""What must be told of budgets and rules across jobs when a run is over, by the plain oracle, and what was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from schemas.budget_tables import ACTIONS
from schemas.tables import ALERTS, BOOKS, DELIVERIES
from streams.engine.alerts.alert import webhook_id
from streams.engine.alerts.budgets import Budget, Limits, budget_of
from streams.engine.ledger_rules.findings import budget_alert_id
from streams.engine.ledger_rules.periods import period_at, periods
from streams.engine.ledger_rules.subject import BudgetSubject, Run
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED
from streams.engine.rules.registry import BY_NAME
from streams.worker.ledger_judges.known_alerts import RULES
from streams.worker.ledger_judges.reader import Accrued
from tests.oracle.budgets import PERCENTS, budget_told, forecast_told, reached
from tests.oracle.ledger_rules_jobs import runs_at
from tests.oracle.model import MINUTE_MS, Tables
from tests.simulator.ledger_sql import open_shards
from tests.simulator.log import Log
from tests.simulator.mail import Mailbox
from tests.simulator.spenders import LADDER, TEAM
from tests.simulator.store import Shelf
from tests.simulator.world import EPOCH_MS

Alert = dict[str, Any]

_BOOKED = ("topic", "partition", "time", "read_to", "next_offset")


def ledger_differences(
    shelf: Shelf, log: Log, tables: Tables, mailbox: Mailbox, judged_ms: int, *, is_on_time: bool
) -> list[str]:
    """One sentence per fault; `tables`: the oracle's. `is_on_time`: nobody was away for long, no clock was wrong."""
    every = [*shelf.rows(ALERTS)]
    alerts = {row["alert_id"]: row for row in every if row["rule"] in RULES}
    found = list(_untold(alerts, every, shelf.rows(DELIVERIES), mailbox, judged_ms))
    if is_on_time:
        found += mailbox.early
    for subject in _subjects(log, tables, judged_ms):
        found += _budget(
            subject,
            tables,
            alerts,
            judged_ms,
            is_on_time=is_on_time,
            guessed_ms=mailbox.guessed_ms,
        )
    return [*found, *_actions(shelf, mailbox, judged_ms)]


def lacking_shards(shelf: Shelf, log: Log, accrued: Accrued) -> set[int]:
    """The shards of which a look lacks something."""
    at_ms, known, read = accrued.until_ms, dict[int, int](), dict[tuple[str, int], int]()
    for _, batch, place in shelf.tables[BOOKS].values():
        topic, shard, time_ms, read_to_ms, offset = (batch.column(name)[place] for name in _BOOKED)
        known[shard] = max(known.get(shard, 0), min(time_ms, read_to_ms))
        read[topic, shard] = offset
    going_on = open_shards(shelf)
    return {
        part.partition
        for part in log.shard_parts
        if known.get(part.partition, 0) < at_ms
        and (end := log.end(part, at_ms - 1))
        and (part.partition in going_on or read.get(part, 0) < end)
    }


def _untold(
    alerts: dict[str, Alert],
    every: Sequence[Alert],
    deliveries: Sequence[dict[str, Any]],
    mailbox: Mailbox,
    judged_ms: int,
) -> Iterator[str]:
    """Each last change was told, but for those that another one of `every` alert tells of; no alert fired under more ids than it fired.

    What changes after `judged_ms` is stored while the run ends, and may wait for the next worker.
    """
    ids = mailbox.ids
    inhibited = {each["alert_id"] for each in deliveries if each["outcome"] == "in_incident"}
    for alert_id, row in alerts.items():
        changed_ms = round(row["changed"].timestamp() * 1000)
        is_told_of = alert_id in inhibited and _is_told_of(row, every, mailbox)
        if (
            changed_ms <= judged_ms
            and not row["silenced"]
            and not is_told_of
            and webhook_id(alert_id, row["status"], changed_ms) not in ids
        ):
            yield f"{_named(row)}: {row['status']} was never told"
        for status in ("firing", "resolved"):
            if len(mailbox.alerts(alert_id, status)) > row["firings"]:
                yield f"{_named(row)}: {status} was told under {len(mailbox.alerts(alert_id, status))} ids"


def _is_told_of(row: Alert, alerts: Iterable[Alert], mailbox: Mailbox) -> bool:
    """Whether an alert that inhibits this one fired when it began, and was told."""
    rules = BY_NAME[row["rule"]].inhibited_by
    return any(
        other["rule"] in rules
        and other["started"] <= row["started"]
        and (other["resolved"] is None or other["resolved"] > row["started"])
        and mailbox.alerts(other["alert_id"], "firing")
        for other in alerts
    )


def _subjects(log: Log, tables: Tables, judged_ms: int) -> Iterator[BudgetSubject]:
    records = {
        line.value["name"]: line.value
        for line in log.lines
        if line.topic == "controls" and isinstance(line.value, dict) and line.value.get("kind") == "budget"
    }
    for name, record in records.items():
        match: dict[str, str] = {field: record[field] for field in ("team", "owner") if field in record}
        budget = budget_of(name, record, match)
        if not budget.is_per_run:
            yield BudgetSubject(budget)
            continue
        for run in runs_at([*log.lines], tables, judged_ms):
            mine = [each for name in run if (each := _run(name, tables)).matches(match)]
            if any(each.state == "running" for each in mine):
                names = tuple(each.job_id for each in mine)
                yield BudgetSubject(budget, replace(mine[0], state="running", jobs=names))


def _run(job_id: str, tables: Tables) -> Run:
    job = tables.jobs[job_id]
    return Run(job_id, job.owner or "", job.team or "", job.project or "", job.experiment or "", job.state)


def budget_rules(log: Log, tables: Tables, judged_ms: int) -> set[str]:
    """Which rules about budgets of those who spend in time fire."""
    found, begin_ms = set[str](), EPOCH_MS // MINUTE_MS * MINUTE_MS
    for subject in _subjects(log, tables, judged_ms):
        budget = subject.budget
        if _is_of_spenders(budget):
            spent = used_by_minute(tables, subject.wanted, judged_ms)
            limits = _limits(budget.limits)
            if budget_told(spent, limits, budget.per, begin_ms, judged_ms):
                found.add(BUDGET_USED)
            if not budget.is_per_run and forecast_told(spent, limits, budget.per, begin_ms, judged_ms):
                found.add(BUDGET_FORECAST)
    return found


def used_by_minute(
    tables: Tables, wanted: Mapping[str, Sequence[str]], until_ms: int
) -> dict[int, list[int]]:
    """What the wanted jobs used: nano-dollars, thousandths of a GPU times ms, ms of run time."""
    found: dict[int, list[int]] = {}

    def at(job_id: str, minute: int) -> list[int] | None:
        job = tables.jobs[job_id]
        fields = {"job_id": job_id, "team": job.team, "owner": job.owner}
        if minute * MINUTE_MS >= until_ms or any(
            (fields[n] or "") not in values for n, values in wanted.items()
        ):
            return None
        return found.setdefault(minute * MINUTE_MS, [0, 0, 0])

    for key, row in tables.ledger.items():
        if (used := at(key.job_id, key.minute)) is not None:
            used[0] += row.cost_nano
            used[1] += row.quantity if key.component == "gpu" else 0
    for hour_key, hour in tables.hours.items():
        for minute, ran_ms in hour.wall_clock_by_minute:
            if (used := at(hour_key.job_id, minute)) is not None:
                used[2] += ran_ms
    return found


def _budget(
    subject: BudgetSubject,
    tables: Tables,
    alerts: dict[str, Alert],
    judged_ms: int,
    *,
    is_on_time: bool,
    guessed_ms: int,
) -> Iterator[str]:
    budget = subject.budget
    limits = _limits(budget.limits)
    period = period_at(budget.per, judged_ms)
    spent = used_by_minute(tables, subject.wanted, judged_ms)
    inside = [each for at_ms, each in spent.items() if at_ms >= period.start_ms]
    used = [sum(each) for each in zip(*inside, strict=True)] if inside else [0, 0, 0]
    rows = {
        percent: alerts.get(budget_alert_id(BUDGET_USED, subject, percent, period)) for percent in PERCENTS
    }
    now = [percent for percent in PERCENTS if reached(used, limits, percent)]
    who = f"budget {budget.name} of {subject.kind} {subject.name}"
    for percent, row in rows.items():
        if row is not None and row["status"] == "firing" and percent not in now:
            yield f"{who}: {percent} % fires, used {used} of {limits}"
    top = rows[max(now)] if now else None
    # What a look had not got yet is told by the next one.
    if guessed_ms < judged_ms and now and (top is None or top["status"] != "firing"):
        yield f"{who}: {max(now)} % does not fire, used {used} of {limits}"
    if is_on_time and _is_of_spenders(budget) and not _was_cut(subject, tables):
        begin_ms = EPOCH_MS // MINUTE_MS * MINUTE_MS
        told = budget_told(spent, limits, budget.per, begin_ms, judged_ms)
        # What is reached at the end of a day is of that day.
        want = {
            (period_at(budget.per, fired_ms - 1).start_ms, percent): fired_ms for percent, fired_ms, _ in told
        }
        got = {
            (one.start_ms, percent): _ms(row["started"])
            for one in periods(budget.per, begin_ms, judged_ms)
            for percent in PERCENTS
            if (row := alerts.get(budget_alert_id(BUDGET_USED, subject, percent, one))) is not None
        }
        is_early = any(at_ms < want.get(which, at_ms) for which, at_ms in got.items())
        is_known = guessed_ms < min(want.values(), default=judged_ms)
        if is_early or (is_known and got != want):
            yield f"{who}: told {sorted(got.items())}, want {sorted(want.items())}"
        row = alerts.get(budget_alert_id(BUDGET_FORECAST, subject, 0, period))
        fires = row is not None and row["status"] == "firing"
        foretold = forecast_told(spent, limits, budget.per, begin_ms, judged_ms)
        if (
            not budget.is_per_run
            and guessed_ms < begin_ms
            and fires != any(over is None for _, over in foretold)
        ):
            yield f"{who}: forecast fires {fires}, want {foretold}"


def _was_cut(subject: BudgetSubject, tables: Tables) -> bool:
    """Whether the run is not all that was submitted again: it had other jobs before, and crossed shares with them."""
    submitted = [name for name in tables.jobs if name.startswith("b-")]
    return subject.name in submitted and len(submitted) != len(subject.jobs)


def _is_of_spenders(budget: Budget) -> bool:
    return budget.match.get("team") == TEAM or budget.match.get("owner") == "amy"


def _limits(limits: Limits) -> list[int | None]:
    return [limits.usd_nano, limits.gpu_milli_ms, limits.wall_clock_ms]


def _actions(shelf: Shelf, mailbox: Mailbox, judged_ms: int) -> Iterator[str]:
    """Each job climbs the ladder in order, a request has one id, and each that was stored was sent.

    What is asked for after `judged_ms` is stored while the run ends, and may wait for the next worker.
    """
    names = [rung if isinstance(rung, str) else rung["do"] for rung in LADDER]
    by_job: dict[str, dict[str, list[Any]]] = {}
    for row in shelf.rows(ACTIONS):
        if row["state"] == "requested":
            by_job.setdefault(row["job_id"], {}).setdefault(row["rung"], []).append(row)
    for job_id, rungs in by_job.items():
        firsts = [min(row["time"] for row in rungs[name]) for name in names if name in rungs]
        if rungs.keys() != set(names[: len(rungs)]) or firsts != sorted(firsts):
            yield f"actions on {job_id}: climbed {sorted(rungs)} at {firsts}"
        for name, rows in rungs.items():
            keys = {row["idempotency_key"] for row in rows}
            if len(keys) != 1:
                yield f"actions on {job_id}: {name} under {len(keys)} keys"
            expired = any(
                row["idempotency_key"] in keys and row["state"] == "expired" for row in shelf.rows(ACTIONS)
            )
            is_last = min(_ms(row["time"]) for row in rows) > judged_ms
            if not keys <= mailbox.ids and not expired and not is_last:
                yield f"actions on {job_id}: {name} was stored and never sent"


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _named(row: Alert) -> str:
    return f"{row['rule']} of {row['subject_kind']} {row['subject_name']}, {row['severity']}, since {row['started']}"
