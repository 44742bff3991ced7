"""`unsampled_gpus`: a job holds GPUs of which no samples come, although those of its cluster's other jobs do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.reserved import USERS_JOBS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import count, sentence, short, unheeded
from streams.engine.rules.hourly_sql import (
    AHEAD,
    END,
    FROM,
    IN,
    JOBS,
    STOOD,
    TO,
    TWICE,
    episodes_of,
    named_in_hour,
)
from streams.engine.rules.rule import TICKET, HourlyRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.wording import nano_of

_NAME: Final = "unsampled_gpus"
_OF_JOB: Final = ("silent_job", "held")
#: GPU-time in which jobs of which samples are expected were suspended, by hour: nothing runs in it, so nothing is sampled.
_SUSPENDED: Final = f"""
SELECT toStartOfHour(minute) AS of_hour, job_id, sum(quantity) AS suspended FROM job_minutes FINAL
PREWHERE minute >= {FROM} AND minute < {TO} AND job_id IN
(
    SELECT job_id FROM job_hours FINAL WHERE {IN} GROUP BY hour, job_id, cluster
    HAVING sum(sampled_gpu_ms) * 1000 <= sum(gpu_milli_ms) * (1 - {{unsampled_ratio:Float64}})
)
WHERE component = 'gpu' AND unit = 'gpu_milli_ms' AND phase = 'suspended' AND quantity != 0
GROUP BY of_hour, job_id"""
#: Samples count up to what is held: two attempts may be sampled on the same GPU. `silent_job`, `held`, the rules of `TWICE` and `clock_ahead` name the same cause.
SQL: Final = f"""
SELECT {END}, c.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, c.cluster AS cluster,
    c.held / 3600000000 AS gpus, greatest(c.held - c.sampled - s.suspended, 0) / c.held AS unsampled_ratio,
    (c.all_sampled - c.sampled) / (c.all_held - c.held) AS others_ratio, toFloat64(c.cost) * unsampled_ratio AS usd
FROM
(
    SELECT hour, job_id, cluster, held, sampled, wall_ms, starting_ms, cost,
        sum(held) OVER w AS all_held, sum(sampled) OVER w AS all_sampled
    FROM
    (
        SELECT hour, job_id, cluster, sum(gpu_milli_ms) AS held, least(sum(sampled_gpu_ms) * 1000, held) AS sampled,
            sum(wall_clock_ms) AS wall_ms, sum(t.starting_ms) AS starting_ms, sum(toDecimal128(gpu_cost_usd, 9)) AS cost
        FROM job_hours AS t FINAL WHERE {IN} AND {USERS_JOBS}
        GROUP BY hour, job_id, cluster HAVING held > 0
    )
    WINDOW w AS (PARTITION BY hour, cluster)
) AS c
LEFT ANY JOIN ({_SUSPENDED}) AS s ON s.of_hour = c.hour AND s.job_id = c.job_id
LEFT ANY JOIN ({JOBS}) AS j ON j.job_id = c.job_id
LEFT ANY JOIN ({episodes_of(*_OF_JOB)}) AS r ON r.subject_name = c.job_id
WHERE c.wall_ms >= 3600000 AND c.starting_ms = 0 AND c.all_held - c.held >= 3600000000
    AND unsampled_ratio >= {{unsampled_ratio:Float64}} AND others_ratio >= {{cluster_ratio:Float64}}
    AND NOT {STOOD} AND NOT {named_in_hour(TWICE, "c.job_id", "(at_ms - 3600000)")}
    AND NOT {named_in_hour(AHEAD, "c.job_id", "(at_ms - 3600000)")}"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """Return the sentence and the evidence of a row."""
    job, cluster, share, spent = row["job_id"], row["cluster"], row["unsampled_ratio"], nano_of(row["usd"])
    digits = 1 if row["gpus"] < 10 else 0
    held, without = (count(round(row["gpus"] * each, digits) * 1000) for each in (1, share))
    return LedgerFinding(
        _NAME, of.severity, "job", job, row["at_ms"],
        sentence(lambda at_most: f"{short(job, at_most)}: {without} of {held} GPUs had no samples for an hour, of"
            f" {f'cluster {short(cluster, at_most)}' if cluster else 'other jobs'} {100 * row['others_ratio']:.0f} % were sampled;"
            f" find their process or give them back, else {unheeded(spent, row['at_ms'])}"),
        _evidence(job),
        share, spent, spent, row["owner"], row["team"], row["project"],
    )  # fmt: skip


def _evidence(job_id: str) -> str:
    return f"""
SELECT hour, round(sum(gpu_milli_ms) / 3600000000, 3) AS held_gpu_h, round(sum(sampled_gpu_ms) / 3600000, 3) AS sampled_gpu_h
FROM job_hours FINAL WHERE job_id = {quoted(job_id)} GROUP BY hour ORDER BY hour DESC LIMIT 24""".strip()


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """Return how far a row of the query is beyond the thresholds."""
    return [
        from_threshold_on(
            "share of its GPU-time without samples", row["unsampled_ratio"], of["unsampled_ratio"]
        ),
        from_threshold_on("sampled share of other jobs' GPU-time", row["others_ratio"], of["cluster_ratio"]),
    ]


RULE: Final = HourlyRule(
    name=_NAME,
    title="GPUs without samples",
    severity=TICKET,
    about="`job`",
    holds="half or more of the GPU-time that it held in the hour has no samples, although that of its cluster's other jobs has",
    runbook="runbook.md#gpus-without-samples",
    yields_to=(*_OF_JOB, "metered_twice", "double_held", "after_node", "clock_ahead"),
    thresholds={
        # Samples of the last ten minutes of an hour may still come.
        "unsampled_ratio": Threshold(
            0.5, 0.17, 1, "share of the GPU-time that it held in an hour without samples"
        ),
        "cluster_ratio": Threshold(
            0.8, 0.01, 1, "sampled share of the GPU-time of the other jobs of its cluster"
        ),
    },
    sql=SQL,
    needs="samples",
    kind="job",
    key="job_id",
    each="job",
    finding=finding,
    margins=margins,
)
