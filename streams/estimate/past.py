"""Past jobs of a planned job's kind: how long they took, what they lost, and what they paid besides time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.estimate.amounts import half_even

#: A kind with fewer jobs is widened, as long as a wider one has more.
JOBS_WANTED: Final = 5
#: What a kind may have in common, from narrow to wide; what is not named is left out.
_KINDS: Final = (
    ("team", "project", "experiment", "gpu_type", "purchase", "gpus"),
    ("team", "project", "gpu_type", "purchase", "gpus"),
    ("team", "gpu_type", "purchase", "gpus"),
    ("gpu_type", "purchase", "gpus"),
    ("gpu_type", "purchase"),
)
#: Costs that no plan has the quantities of: they follow GPU-time as they did.
FOLLOWING: Final = ("compute", "network", "storage")

Kind = tuple[str, ...]
Sql = tuple[str, dict[str, object]]
_ENDED: Final = f"state = 'completed' AND wall_clock_ms > 0 AND {USERS_JOBS}"

_COST: Final = " + ".join(f"toDecimal128({name}_cost_usd, 9)" for name in COMPONENTS)
#: Completed jobs that ended so long before count for the usual cost.
RECENT_MS: Final = 30 * 86_400_000

_ENDED_MS: Final = "toUnixTimestamp64Milli(assumeNotNull(ended))"
#: Other jobs that were completed in this time.
_LATELY: Final = (
    f"{_ENDED} AND job_id != {{job:String}} AND ended IS NOT NULL"
    f" AND {_ENDED_MS} <= {{until_ms:Int64}} AND {_ENDED_MS} > {{until_ms:Int64}} - {RECENT_MS}"
)

#: In percent: the range of a figure over similar jobs, and where most of them lie.
QUANTILES: Final = (0, 25, 50, 75, 95, 100)

#: The two times that a quantile lies between, and how many tenths of the way it lies after the first.
_DURATIONS: Final = (
    "WITH arraySort(groupArray(wall_clock_ms)) AS ascending SELECT count() AS jobs, sum(attempts) AS tried, "
    + ", ".join(
        f"ascending[intDiv((count() - 1) * {tenths}, 10) + 1] AS {name}_low, "
        f"ascending[intDiv((count() - 1) * {tenths} + 9, 10) + 1] AS {name}_high, (count() - 1) * {tenths} % 10 AS {name}_tenths"
        for name, tenths in (("median", 5), ("p90", 9))
    )
)
_HOURS: Final = ", ".join(
    (
        "toString(sum(toInt128(gpu_milli_ms))) AS gpu",
        "toString(sum(toInt128(lost_gpu_milli_ms))) AS lost_gpu",
        *(f"toString(sum(toDecimal128({name}_cost_usd, 9))) AS {name}" for name in FOLLOWING),
    )
)


@dataclass(frozen=True)
class Past:
    """Completed jobs of a kind; times in ms, GPU-time in gpu_milli_ms, costs in nano-dollars."""

    kind: Mapping[str, str]
    jobs: int
    median_ms: int
    p90_ms: int
    attempts: int
    gpu_milli_ms: int
    lost_gpu_milli_ms: int
    following_nano: Mapping[str, int]

    @property
    def surviving_gpu_milli_ms(self) -> int:
        """The GPU-time that was not lost."""
        return self.gpu_milli_ms - self.lost_gpu_milli_ms


def kinds(names: Mapping[str, str]) -> list[Kind]:
    """The kinds of a job with these names (`gpus` among them), from narrow to wide, each once."""
    found = [tuple(field for field in kind if names.get(field)) for kind in _KINDS]
    return [kind for place, kind in enumerate(found) if kind and kind not in found[:place]]


def counting(wanted: list[Kind], names: Mapping[str, str]) -> Sql:
    """The statement that counts the completed jobs of each kind: one row, columns `jobs0`..."""
    counts = ", ".join(f"countIf({_condition(kind)}) AS jobs{place}" for place, kind in enumerate(wanted))
    parameters = {field: names[field] for kind in wanted for field in kind}
    return f"SELECT {counts} FROM jobs FINAL WHERE {_ENDED}", dict(parameters)


def counting_lately(wanted: list[Kind], names: Mapping[str, str], job_id: str, until_ms: int) -> Sql:
    """The statement that counts the other jobs of each kind that were completed lately: one row, columns `jobs0`..."""
    counts = ", ".join(f"countIf({_condition(kind)}) AS jobs{place}" for place, kind in enumerate(wanted))
    parameters = {field: names[field] for kind in wanted for field in kind}
    return f"SELECT {counts} FROM jobs FINAL WHERE {_LATELY}", {
        **parameters,
        "job": job_id,
        "until_ms": until_ms,
    }


def chosen(wanted: list[Kind], row: Mapping[str, Any]) -> Kind | None:
    """The narrowest kind with `JOBS_WANTED` jobs, else the narrowest of those with the most; None without any."""
    counts = [int(row[f"jobs{place}"]) for place in range(len(wanted))]
    most = min(max(counts, default=0), JOBS_WANTED)
    return next((kind for kind, count in zip(wanted, counts, strict=True) if count >= most > 0), None)


def figures(kind: Kind, names: Mapping[str, str]) -> Sql:
    """The statement of the figures of a kind: one row, of its jobs and of their hours."""
    parameters: dict[str, object] = {field: names[field] for field in kind}
    where = f"{_ENDED} AND {_condition(kind)}"
    of_jobs = f"{_DURATIONS} FROM jobs FINAL WHERE {where}"
    of_hours = (
        f"SELECT {_HOURS} FROM job_hours FINAL WHERE job_id IN (SELECT job_id FROM jobs FINAL WHERE {where})"
    )
    return f"SELECT * FROM ({of_jobs}) AS j CROSS JOIN ({of_hours}) AS h", parameters


def costing(kind: Kind, names: Mapping[str, str], job_id: str, until_ms: int) -> Sql:
    """The statement of what other jobs of a kind cost that were completed lately: how many, and the two middle costs."""
    sql = (
        "WITH arraySort(groupArray(usd)) AS ascending SELECT count() AS jobs, toString(ascending[intDiv(count() - 1, 2) + 1]) AS low,"
        f" toString(ascending[intDiv(count(), 2) + 1]) AS high FROM ({_costs(kind)})"
    )
    return sql, _costing_parameters(kind, names, job_id, until_ms)


def spreading(kind: Kind, names: Mapping[str, str], job_id: str, until_ms: int) -> Sql:
    """The statement of how the figures of these jobs are spread: for each of `QUANTILES` the two values between which it lies.

    There must be such jobs. Dollars are nano-dollars, the cost of a training hour rounded half to even.
    """
    nano = "toInt256(usd * 1000000000)"
    per_hour = (
        f"({nano} * 3600000) AS paid, intDiv(paid, wall_clock_ms) AS whole, 2 * (paid % wall_clock_ms) AS twice, "
        "whole + (twice > wall_clock_ms OR (twice = wall_clock_ms AND whole % 2 = 1)) AS usd_per_hour"
    )
    figures = ("usd_per_hour", "cost_usd", "wall_clock_ms")
    picked = ", ".join(
        f"arrayMap(q -> toString({name}s[intDiv((jobs - 1) * q + {more}, 100) + 1]), {[*QUANTILES]}) AS {name}_{end}"
        for name in figures
        for end, more in (("low", 0), ("high", 99))
    )
    sorted_arrays = ", ".join(f"arraySort(groupArray({name})) AS {name}s" for name in figures)
    ran = f"SELECT job_id, wall_clock_ms FROM jobs FINAL WHERE {_similar(kind)}"
    sql = (
        f"SELECT jobs, {picked} FROM (SELECT count() AS jobs, {sorted_arrays} FROM (SELECT wall_clock_ms, {nano} AS cost_usd, "
        f"{per_hour} FROM ({_costs(kind)}) AS c INNER JOIN ({ran}) AS r ON r.job_id = c.job_id))"
    )
    return sql, _costing_parameters(kind, names, job_id, until_ms)


def _costs(kind: Kind) -> str:
    """What each of the other jobs of a kind cost that were completed lately."""
    others = f"SELECT job_id FROM jobs FINAL WHERE {_similar(kind)}"
    return (
        f"SELECT job_id, sum({_COST}) AS usd FROM job_hours FINAL WHERE job_id IN ({others}) GROUP BY job_id"
    )


def _similar(kind: Kind) -> str:
    return f"{_LATELY} AND {_condition(kind)}"


def _costing_parameters(
    kind: Kind, names: Mapping[str, str], job_id: str, until_ms: int
) -> dict[str, object]:
    return {**{field: names[field] for field in kind}, "job": job_id, "until_ms": until_ms}


def past_of(kind: Kind, names: Mapping[str, str], row: Mapping[str, Any]) -> Past:
    """What the row of the statement of a kind says."""
    return Past(
        kind={field: names[field] for field in kind},
        jobs=int(row["jobs"]),
        median_ms=_between(row, "median"),
        p90_ms=_between(row, "p90"),
        attempts=int(row["tried"]),
        gpu_milli_ms=int(row["gpu"]),
        lost_gpu_milli_ms=int(row["lost_gpu"]),
        following_nano={name: int(Decimal(row[name]).scaleb(9)) for name in FOLLOWING},
    )


def _between(row: Mapping[str, Any], name: str) -> int:
    low, high, tenths = (int(row[f"{name}_{part}"]) for part in ("low", "high", "tenths"))
    return half_even(low * (10 - tenths) + high * tenths, 10)


def _condition(kind: Kind) -> str:
    return " AND ".join(
        "gpu_count = toDecimal64({gpus:String}, 3)" if field == "gpus" else f"{field} = {{{field}:String}}"
        for field in kind
    )
