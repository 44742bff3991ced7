"""`retry_overhead`: too much of what a job cost is lost, by attempts that failed or were preempted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.durations import HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import usd
from streams.engine.rules.hourly_sql import COST, END, IN, JOBS, STOOD, TO, all_episodes_of, episodes_of
from streams.engine.rules.rule import TICKET, HourlyRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.wording import named, nano_of

_NAME: Final = "retry_overhead"
#: An attempt in one of these states has lost what it did since its last checkpoint.
_BROKEN: Final = "('failed', 'preempted', 'superseded')"

#: What attempts cost and lost in each hour, of jobs that were paid in the span and of which any attempt broke off.
_TRIED: Final = f"""
SELECT h.job_id AS job_id, h.attempt AS attempt, h.hour AS hour, h.cost AS cost, h.lost AS all_lost,
    if(a.is_retry, h.starting_lost, toDecimal128(0, 9)) AS start_lost, a.state AS state, a.ended AS ended
FROM
(
    SELECT job_id, attempt, hour, sum({COST}) AS cost, sum(toDecimal128(lost_cost_usd, 9)) AS lost,
        sum(toDecimal128(starting_lost_cost_usd, 9)) AS starting_lost
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND job_id IN (SELECT job_id FROM job_hours WHERE {IN}) AND hour < {TO}
        AND job_id IN (SELECT job_id FROM attempts WHERE state IN {_BROKEN})
    GROUP BY job_id, attempt, hour
) AS h
LEFT ANY JOIN
(
    SELECT job_id, attempt, state, ended, attempt > min(attempt) OVER (PARTITION BY job_id) AS is_retry FROM attempts FINAL
) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt"""

#: Attempts that an alert about a retry loop names, with the instant of that alert: it says what they lost.
_NAMED: Final = f"""
SELECT t.job_id AS job_id, t.attempt AS attempt, t.all_lost AS all_lost, toUnixTimestamp64Milli(assumeNotNull(t.ended)) AS ended_ms,
    arrayMin(arrayMap(each -> each.1, arrayFilter(each -> ended_ms > each.1 - {HOUR_MS} AND ended_ms <= each.2, r.episodes))) AS named_ms
FROM (SELECT job_id, attempt, all_lost, state, ended FROM ({_TRIED})) AS t
INNER JOIN ({all_episodes_of("retry_loop")}) AS r ON r.subject_name = t.job_id
WHERE t.state IN {_BROKEN} AND t.ended IS NOT NULL
    AND arrayExists(each -> ended_ms > each.1 - {HOUR_MS} AND ended_ms <= each.2, r.episodes)"""

#: What an attempt lost counts from the hour on in which it broke off, the start-up of a retry in its own hour; not any more
#: from the hour on in which a retry loop reported it.
SQL: Final = f"""
SELECT {END}, c.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project,
    c.usd AS usd, c.lost_usd AS lost_usd, c.broken AS broken
FROM
(
    SELECT job_id, hour, cost, sum(cost) OVER w AS usd, sum(lost) OVER w AS lost_usd, sum(broke) OVER w AS broken
    FROM
    (
        SELECT job_id, hour, sum(t.cost) AS cost, sum(t.lost) AS lost, sum(t.broke) AS broke
        FROM
        (
            SELECT job_id, hour, cost, start_lost AS lost, 0 AS broke FROM ({_TRIED})
            UNION ALL
            SELECT job_id, toStartOfHour(toDateTime(assumeNotNull(ended), 'UTC')) AS hour, toDecimal128(0, 9) AS cost,
                sum(all_lost) - sum(start_lost) AS lost, 1 AS broke
            FROM (SELECT job_id, attempt, all_lost, start_lost, state, ended FROM ({_TRIED}))
            WHERE state IN {_BROKEN} AND ended IS NOT NULL
            GROUP BY job_id, attempt, ended HAVING sum(all_lost) > 0
            UNION ALL
            SELECT job_id, toStartOfHour(toDateTime(intDiv(greatest(ended_ms, named_ms), 1000), 'UTC')) AS hour,
                toDecimal128(0, 9) AS cost, -sum(all_lost) AS lost, -1 AS broke
            FROM ({_NAMED}) GROUP BY job_id, attempt, ended_ms, named_ms HAVING sum(all_lost) > 0
        ) AS t
        GROUP BY job_id, hour
    )
    WINDOW w AS (PARTITION BY job_id ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
) AS c
LEFT ANY JOIN ({JOBS}) AS j ON j.job_id = c.job_id
LEFT ANY JOIN ({episodes_of("retry_loop")}) AS r ON r.subject_name = c.job_id
WHERE c.{IN} AND NOT {STOOD} AND c.cost > 0 AND c.broken >= {{attempts:UInt32}} AND toFloat64(c.lost_usd) >= {{least_usd:Float64}}
    AND toFloat64(c.lost_usd) > {{lost_ratio:Float64}} * toFloat64(c.usd)"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """Return the sentence and the evidence of a row."""
    job, spent, lost = row["job_id"], float(row["usd"]), float(row["lost_usd"])
    return LedgerFinding(
        _NAME, of.severity, "job", job, row["at_ms"],
        named("", job, f" has lost {usd(nano_of(lost))} of {usd(nano_of(spent))} ({100 * lost / spent:.0f} %) to {row['broken']} attempts"
            " that failed or were preempted; checkpoint more often, or find out why they end"),
        f"SELECT * FROM lost_work WHERE job_id = {quoted(job)} ORDER BY hour",
        lost / spent, 0, nano_of(lost), row["owner"], row["team"], row["project"],
    )  # fmt: skip


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a row of the query is beyond the thresholds."""
    spent, lost = float(row["usd"]), float(row["lost_usd"])
    return [
        from_threshold_on(
            "lost share of its cost (above)", lost / spent if spent else None, of["lost_ratio"]
        ),
        from_threshold_on("dollars lost", lost, of["least_usd"]),
        from_threshold_on("attempts that broke off and lost something", row["broken"], of["attempts"]),
    ]


RULE: Final = HourlyRule(
    name=_NAME,
    title="Retries cost too much",
    severity=TICKET,
    about="`job`",
    holds="more than 10 % of the job's cost is lost, at least $10, by at least 3 attempts, whether retries followed them or not; in an"
    " hour in which it cost anything, and in hours without cost after it; without what `retry_loop` named",
    runbook="ledger_rules.md#retry_overhead",
    thresholds={
        "lost_ratio": Threshold(0.1, 0.001, 1, "lost share of the job's cost"),
        "least_usd": Threshold(10, 0.01, 1e9, "dollars lost"),
        "attempts": Threshold(3, 1, 1000, "attempts that broke off and lost something", True),
    },
    sql=SQL,
    needs="jobs",
    kind="job",
    key="job_id",
    judged_by="cost",
    left_to="retry_loop",
    bound=lambda of, _from_ms: {**of, "attempts": int(of["attempts"])},
    each="job",
    finding=finding,
    margins=margins,
)
