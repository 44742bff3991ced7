"""What every budget has used: the SQL, and one object per budget, for the page, the terminal and other programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from streams.calendar import PLAIN
from streams.costs.currency import rates_steps
from streams.costs.day_parts import Steps
from streams.engine.ledger_rules.budget_now import exhausted_ms
from streams.errors import WrongUseError

Row = Mapping[str, Any]
#: More are not listed; those that are used most come first.
LISTED_MAX: Final = 500

_LAST_USE: Final = "(SELECT max(time) FROM budget_use)"
#: The budgets of the last minute that was judged; one that is gone since has an older row.
USED: Final = f"""
SELECT budget, subject_kind, subject_name, per, toUnixTimestamp64Milli(period_start) AS period_start_ms,
    toUnixTimestamp64Milli(period_end) AS period_end_ms, match, jobs, limit_usd, limit_gpu_hours, limit_wall_clock_hours, used_usd,
    used_gpu_hours, used_wall_clock_hours, used_ratio, usd_per_hour, toUnixTimestamp64Milli(time) AS time_ms
FROM budget_use FINAL
WHERE time = {_LAST_USE} AND subject_kind != ''
ORDER BY used_ratio DESC, budget, subject_name
LIMIT {LISTED_MAX}"""  # noqa: S608 - constants alone
#: Of each budget and period what was asked for, by rung: jobs, and the newest state of any of them.
TAKEN: Final = f"""
SELECT a.budget AS budget, a.period_start_ms AS period_start_ms, r.run AS run, a.rung AS rung, a.mode AS mode, count() AS jobs,
    argMax(a.last_state, a.at_ms) AS state, max(a.at_ms) AS time_ms
FROM
(
    SELECT budget, toUnixTimestamp64Milli(period_start) AS period_start_ms, job_id, rung, mode,
        argMax(state, (attempt, time)) AS last_state, toUnixTimestamp64Milli(max(time)) AS at_ms
    FROM actions FINAL
    WHERE (budget, period_start) IN (SELECT budget, period_start FROM budget_use WHERE time = {_LAST_USE})
    GROUP BY budget, period_start_ms, job_id, rung, mode, idempotency_key
) AS a
LEFT ANY JOIN
(
    SELECT budget, arrayJoin(arrayPushFront(jobs, subject_name)) AS job_id, subject_name AS run FROM budget_use FINAL
    WHERE per = 'run' AND time = {_LAST_USE}
) AS r ON r.budget = a.budget AND r.job_id = a.job_id
GROUP BY budget, period_start_ms, run, rung, mode
ORDER BY time_ms, rung"""  # noqa: S608 - constants alone
#: Of each budget and override the newest record.
RECORDS: Final = """
SELECT kind, name, match, toUnixTimestamp64Milli(begins) AS begins_ms, toUnixTimestamp64Milli(until) AS until_ms, by, comment, source,
    removed, fault, toUnixTimestamp64Milli(time) AS time_ms
FROM controls FINAL
WHERE kind IN ('budget', 'override') AND time <= fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')
ORDER BY offset DESC LIMIT 1 BY kind, name LIMIT 10000"""


def budgets(used: Iterable[Row], taken: Iterable[Row], records: Iterable[Row], at_ms: int) -> dict[str, Any]:
    """All budgets for JSON, those that are used most first; at last those that no minute has judged yet.

    Args:
        used: Rows of `USED`.
        taken: Rows of `TAKEN`.
        records: Rows of `RECORDS`.
        at_ms: Log time, ms since 1970.
    """
    newest = {(row["kind"], row["name"]): row for row in records}
    actions: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in taken:
        of = row["budget"], int(row["period_start_ms"]), row["run"]
        actions.setdefault(of, []).append(
            {name: row[name] for name in ("rung", "mode", "state", "jobs", "time_ms")}
        )
    overrides = [row for (kind, _), row in newest.items() if kind == "override" and _is_in_force(row, at_ms)]
    found, names = [], set[str]()
    as_of_ms = None
    for row in used:
        record = newest.get(("budget", row["budget"]))
        if record is not None and record["removed"]:
            continue  # no minute was judged since
        names.add(row["budget"])
        as_of_ms = int(row["time_ms"])
        run = row["subject_name"] if row["per"] == "run" else ""
        done = actions.get((row["budget"], int(row["period_start_ms"]), run), [])
        found.append(_judged(row, done, _override(row, overrides), record))
    for (kind, name), record in newest.items():
        if kind == "budget" and name not in names and not record["removed"] and not record["fault"]:
            found.append({"budget": name, "match": dict(record["match"]), "set": _set(record), "used": None})
    return {"as_of_ms": as_of_ms, "budgets": found}


def converted_steps(answer: dict[str, Any], currency: str, at_ms: int) -> Steps[dict[str, Any]]:
    """Set what is used and the limit in a currency beside the dollars, at the newest rate by the instant of the figures.

    Raises:
        WrongUseError: There is no rate of the week before it.
    """
    day = PLAIN.date_of(answer["as_of_ms"] or at_ms)
    rate = (yield from rates_steps(currency, day, day)).on(day)
    if rate is None:
        raise WrongUseError(
            f"currency: no rate of {currency} of the week by {day} is loaded; `trainfare fx load FILE`"
        )
    found = []
    for each in answer["budgets"]:
        if each["used"] is not None and each["used"]["usd"] is not None:
            used, limit = (rate.amounts([each["used"]["usd"][name]])[0] for name in ("used", "limit"))
            amounts = {"used": f"{used:f}", "limit": f"{limit:f}"}
            found.append({**each, "used": {**each["used"], "currency": amounts}})
        else:
            found.append(each)
    return {**answer, "budgets": found, "rate": rate.record()}


def _judged(
    row: Row, actions: list[dict[str, Any]], override: dict[str, Any] | None, record: Row | None
) -> dict[str, Any]:
    return {
        "budget": row["budget"],
        "subject": {"kind": row["subject_kind"], "name": row["subject_name"]},
        "match": dict(row["match"]),
        # Of a budget per run: how many jobs the run has, each a submission of it.
        "job_count": max(len(row["jobs"]), 1) if row["per"] == "run" else None,
        "per": row["per"],
        "period_start_ms": int(row["period_start_ms"]) or None,
        "period_end_ms": int(row["period_end_ms"]) or None,
        "used": {
            "ratio": row["used_ratio"],
            **{f"{unit}": _of(row, unit) for unit in ("usd", "gpu_hours", "wall_clock_hours")},
        },
        "usd_per_hour": f"{row['usd_per_hour']:f}",
        "exhausted_ms": exhausted_ms(row),
        "actions": actions,
        "override": override,
        "set": None if record is None else _set(record),
    }


def _of(row: Row, unit: str) -> dict[str, str | float] | None:
    """What is used of a limit; None: it does not limit that."""
    limit, used = row[f"limit_{unit}"], row[f"used_{unit}"]
    if not limit:
        return None
    if isinstance(limit, Decimal):
        return {"used": f"{used:f}", "limit": f"{limit:f}"}
    return {"used": float(used), "limit": float(limit)}


def _set(record: Row) -> dict[str, Any]:
    return {
        "by": record["by"] or record["source"],
        "time_ms": int(record["time_ms"]),
        "comment": record["comment"],
    }


def _is_in_force(record: Row, at_ms: int) -> bool:
    begins_ms, until_ms = record["begins_ms"], record["until_ms"]
    return (
        not record["removed"]
        and not record["fault"]
        and (begins_ms is None or int(begins_ms) <= at_ms)
        and (until_ms is None or at_ms < int(until_ms))
    )


def _override(row: Row, overrides: Iterable[Row]) -> dict[str, Any] | None:
    """The override that suspends the budget's actions longest, of those for all of its jobs."""
    mine = []
    for each in overrides:
        match = dict(each["match"])
        named = match.pop("budget", row["budget"])
        facts = dict(row["match"])
        if named == row["budget"] and all(facts.get(field) == wanted for field, wanted in match.items()):
            mine.append(each)
    if not mine:
        return None
    best = max(mine, key=lambda each: int(each["until_ms"] or 0))
    return {
        "name": best["name"],
        "until_ms": best["until_ms"],
        "by": best["by"] or best["source"],
        "reason": best["comment"],
    }
