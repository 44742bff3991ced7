"""The columns of each metric, over the sums of its cells (docs/cost_metrics.md, metrics).

Money is added as Decimal; ratios are Float64, and NULL where they would divide by zero.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.units import COMPONENTS
from streams.costs.request import Metric

COSTS: Final = tuple(f"{component}_cost_usd" for component in COMPONENTS)
TOTAL: Final = " + ".join(f"toDecimal128(h.{name}, 9)" for name in COSTS)
_COST_SUMS: Final = ", ".join(f"sum(h.{component}_cost_usd) AS {component}_cost" for component in COMPONENTS)
#: Sums of each cell of hours, before cells are put together: by job or hour where a metric needs these apart. The whole cost
#: is the sum of these sums: to add the columns of each row first takes as long as all the rest.
SUMS: Final = f"""{_COST_SUMS},
        {" + ".join(f"{component}_cost" for component in COMPONENTS)} AS cost,
        sum(h.lost_cost_usd) AS lost_cost,
        sum(h.wall_clock_ms) AS wall_ms, sum(h.queued_ms) AS waited_ms, sum(h.starting_ms) AS start_ms,
        sum(toInt128(h.gpu_milli_ms)) AS gpu_ms, sum(toInt128(h.lost_gpu_milli_ms)) AS lost_gpu_ms,
        sum(toInt128(h.unpriced_gpu_milli_ms)) AS unpriced_gpu_ms"""
#: Lost work that a retry followed, and the start-up of retries (docs/cost_metrics.md, lost work).
_RETRY_COST: Final = """sum(toDecimal128(multiIf(h.attempt < n.last_attempt, h.lost_cost_usd, h.attempt = n.first_attempt, toDecimal64(0, 9),
            h.starting_lost_cost_usd), 9)) AS retry_cost"""


class MetricColumns(NamedTuple):
    """The columns of a metric over sums of cells."""

    columns: str
    apart: tuple[str, ...] = ()  # what the sums are also grouped by, as `expression AS name`
    sums: tuple[str, ...] = ()  # further sums, as `expression AS name`


def _hours(ms: str) -> str:
    return f"sum({ms}) / 3600000"


def _known_hours(ms: str, sampled_ms: str) -> str:
    return f"if(sum({sampled_ms}) = 0, NULL, {_hours(ms)})"


def _gpu_hours(ms: str) -> str:
    return f"toFloat64(sum({ms})) / 3600000000"


def _per(usd: str, hours: str) -> str:
    return f"toFloat64({usd}) / nullIf({hours}, 0)"


def _spread(usd: str, prefix: str) -> str:
    """Median, 95th percentile and mean over the jobs that ran, of what an hour cost each."""
    rate = f"toFloat64({usd}) * 3600000 / wall_ms"
    return ", ".join(
        f"{function}({rate}, wall_ms > 0) AS {name}_{prefix}usd_per_hour"
        for name, function in (
            ("median", "quantileExactInclusiveOrNullIf(0.5)"),
            ("p95", "quantileExactInclusiveOrNullIf(0.95)"),
            ("mean", "avgOrNullIf"),
        )
    )


_INFRA: Final = "cost - license_cost - labor_cost"
METRICS: Final = {
    Metric.total: MetricColumns(
        ", ".join(f"sum({name}_cost) AS {name}_cost_usd" for name in COMPONENTS)
        + f", sum(lost_cost) AS lost_cost_usd, {_hours('wall_ms')} AS wall_clock_h, {_hours('waited_ms')} AS queued_h, "
        f"{_hours('start_ms')} AS starting_h, {_gpu_hours('gpu_ms')} AS gpu_h, {_gpu_hours('unpriced_gpu_ms')} AS unpriced_gpu_h"
    ),
    Metric.m1: MetricColumns(
        f"sum({_INFRA}) AS infra_cost_usd, sum(compliance_cost) AS compliance_cost_usd, {_hours('wall_ms')} AS wall_clock_h, "
        f"{_per('cost_usd', 'wall_clock_h')} AS usd_per_hour, "
        f"{_per('infra_cost_usd', 'wall_clock_h')} AS infra_usd_per_hour, "
        f"{_per('compliance_cost_usd', 'wall_clock_h')} AS compliance_usd_per_hour, "
        f"uniqExactIf(job_id, wall_ms > 0) AS jobs, {_spread('cost', '')}, {_spread(_INFRA, 'infra_')}",
        ("h.job_id AS job_id",),
    ),
    Metric.m2: MetricColumns(
        f"sum(gpu_cost) + sum(overhead_cost) AS gpu_and_overhead_cost_usd, {_gpu_hours('gpu_ms')} AS gpu_h, "
        f"{_per('gpu_and_overhead_cost_usd', 'gpu_h')} AS usd_per_gpu_hour"
    ),
    Metric.m4: MetricColumns(
        "countIf(cost > 0) AS hours, "
        f"{_per('cost_usd', 'hours')} AS usd_per_hour, max(cost) AS peak_usd_per_hour, "
        "argMax(clock_hour, cost) AS peak_hour",
        ("h.hour AS clock_hour",),
    ),
    Metric.m5: MetricColumns(
        f"sum(lost_cost) AS lost_cost_usd, {_per('lost_cost_usd', 'toFloat64(cost_usd)')} AS ratio, "
        f"sum(retry_cost) AS retry_cost_usd, {_per('retry_cost_usd', 'toFloat64(cost_usd)')} AS retry_ratio",
        sums=(_RETRY_COST,),
    ),
    # What was not sampled is unknown, not unproductive: the productive share of what was sampled stands for all of it.
    Metric.m8: MetricColumns(
        f"{_gpu_hours('gpu_ms')} AS gpu_h, {_hours('sampled_ms')} AS sampled_gpu_h, "
        f"sampled_gpu_h / nullIf(gpu_h, 0) AS coverage_ratio, "
        f"{_known_hours('productive_ms', 'sampled_ms')} AS productive_gpu_h, productive_gpu_h / nullIf(sampled_gpu_h, 0) AS productive_ratio, "
        f"{_per('cost_usd', 'gpu_h * productive_ratio')} AS usd_per_productive_gpu_hour, "
        f"{_known_hours('tensor_ms', 'tensor_sampled_ms')} AS tensor_gpu_h, tensor_gpu_h / nullIf({_hours('tensor_sampled_ms')}, 0) AS tensor_ratio, "
        f"{_per('cost_usd', 'gpu_h * tensor_ratio')} AS usd_per_tensor_gpu_hour, "
        f"{_gpu_hours('gpu_ms - lost_gpu_ms')} AS goodput_gpu_h, goodput_gpu_h / nullIf(gpu_h, 0) AS goodput_ratio, "
        f"{_per('cost_usd', 'goodput_gpu_h')} AS usd_per_goodput_gpu_hour",
        sums=(
            "sum(h.sampled_gpu_ms) AS sampled_ms",
            "sum(h.productive_gpu_ms) AS productive_ms",
            "sum(h.tensor_gpu_ms) AS tensor_ms",
            "sum(h.tensor_sampled_gpu_ms) AS tensor_sampled_ms",
        ),
    ),
    Metric.m9: MetricColumns(
        "uniqExactIf(job_id, cost > 0 OR wall_ms > 0) AS jobs, "
        "uniqExactIf(job_id, state = 'completed') AS successful_jobs, "
        f"{_per('cost_usd', 'jobs')} AS usd_per_job, {_per('cost_usd', 'successful_jobs')} AS usd_per_successful_job",
        ("h.job_id AS job_id", "j.state AS state"),
    ),
    Metric.m10: MetricColumns(
        f"countIf(wall_ms > 0) AS hours, {_hours('wall_ms')} AS wall_clock_h, "
        f"{_per('sumIf(cost, wall_ms > 0)', 'wall_clock_h')} AS mean_usd_per_hour, "
        "sqrt(arraySum(x -> x.2 * pow(x.1 / x.2 - assumeNotNull(mean_usd_per_hour), 2), "
        "groupArrayIf((toFloat64(cost), wall_ms / 3600000), wall_ms > 0)) / nullIf(wall_clock_h, 0)) "
        "AS stddev_usd_per_hour, stddev_usd_per_hour / nullIf(mean_usd_per_hour, 0) AS variation",
        ("h.hour AS clock_hour",),
    ),
}  # fmt: skip
#: Of an hour that ran: whether it cost more per hour of run time than the limit. An exact comparison, no division.
SLO_COLUMNS: Final = (
    ", sumIf(wall_ms, cost * 3600000 > {slo_usd:Decimal(38, 9)} * wall_ms) / nullIf(sum(wall_ms), 0) AS slo_over_ratio, "
    "1 - slo_over_ratio / (1 - {slo_target:Float64}) AS slo_budget_left_ratio"
)


class Measure(NamedTuple):
    """What M9 shows of a measure that jobs report."""

    parameter: str
    columns: str
    apart: tuple[str, ...]


#: The gain is from the worst to the best trial, whichever way is better; one trial alone gained nothing that is known.
QUALITY: Final = Measure(
    "quality",
    ", maxOrNullIf(measured, is_measured) AS max_quality, minOrNullIf(measured, is_measured) AS min_quality, "
    "max_quality - min_quality AS quality_gained, toFloat64(cost_usd) / nullIf(quality_gained, 0) AS usd_per_quality_gained",
    ("j.quality[{quality:String}] AS measured", "mapContains(j.quality, {quality:String}) AS is_measured"),
)
#: What a job does not report as progress may stand in its labels.
PROGRESS: Final = Measure(
    "progress",
    ", sumIf(done, done > 0) AS progress, "
    "toFloat64(sumIf(cost, done > 0)) / nullIf(progress, 0) AS usd_per_progress, usd_per_progress * 1000000 AS usd_per_million_progress",
    (
        "if(mapContains(j.progress, {progress:String}), j.progress[{progress:String}], toFloat64OrZero(j.labels[{progress:String}])) AS done",
    ),
)

#: What the hours cost of which burn rates say what they should have cost; of run time, at the rate expected last in the hour.
EXPECTED: Final = MetricColumns(
    ", toFloat64(sum(expected_usd_ms)) / nullIf(sum(expected_ms), 0) AS expected_usd_per_hour, "
    "toFloat64(sum(judged_cost)) * 3600000 / nullIf(toFloat64(sum(expected_usd_ms)), 0) AS to_expected_ratio",
    sums=(
        "sum(toDecimal128(e.expected, 9) * h.wall_clock_ms) AS expected_usd_ms",
        "sumIf(h.wall_clock_ms, e.expected > 0) AS expected_ms",
        f"sumIf({TOTAL}, e.expected > 0) AS judged_cost",
    ),
)
