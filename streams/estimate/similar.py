"""A job beside the similar jobs that were completed lately: cost per training hour, cost and duration against theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.errors import TrainfareError
from streams.estimate import past, ran
from streams.estimate.amounts import half_even
from streams.estimate.asking import Records, usual_kinds

#: The figures that are compared; those in dollars are nano-dollars here and decimals where they are shown.
FIGURES: Final = ("usd_per_hour", "cost_usd", "wall_clock_ms")
_IN_USD: Final = frozenset({"usd_per_hour", "cost_usd"})
_NAMES: Final = dict(zip(past.QUANTILES, ("least", "p25", "median", "p75", "p95", "most"), strict=True))
_JOB: Final = f"""
SELECT team, project, experiment, gpu_type, purchase, toString(gpu_count) AS gpus, state, wall_clock_ms,
       ended IS NOT NULL AS is_over,
       toUnixTimestamp64Milli(ifNull(ended, (SELECT max(last_event) FROM jobs FINAL))) AS until_ms,
       ({ran.HOURS_COST.strip()}) AS usd
FROM jobs FINAL WHERE job_id = {{job:String}}
"""


class SimilarFigure(NamedTuple):
    """One figure of a job (nano-dollars, nano-dollars per hour or ms), and quantiles of it over similar jobs by their names."""

    of_job: int | None  # None: it has not run
    of_others: Mapping[str, int]


class SimilarJobs(NamedTuple):
    """A job beside others; without `kind` too few are similar, and `jobs` is 0."""

    job_id: str
    state: str
    is_over: bool
    kind: Mapping[str, str]
    jobs: int
    figures: Mapping[str, SimilarFigure]


def similar_jobs(records: Records, job_id: str) -> SimilarJobs | None:
    """What a job costs beside the jobs that a receipt compares it with; None: the store does not know it.

    They are the completed jobs of its narrowest kind that has enough, of the 30 days before its end, or before now as
    long as it has none.
    """
    found = records(_JOB, job=job_id)
    if not found:
        return None
    job: Mapping[str, Any] = found[0]
    names = {
        name: str(job[name]) for name in ("team", "project", "experiment", "gpu_type", "purchase", "gpus")
    }
    cost_nano = ran.nano_of(str(job["usd"]))
    wall_ms = int(job["wall_clock_ms"])
    own = {
        "usd_per_hour": half_even(cost_nano * HOUR_MS, wall_ms) if wall_ms else None,
        "cost_usd": cost_nano,
        "wall_clock_ms": wall_ms,
    }
    until_ms = int(job["until_ms"])
    kind: dict[str, str] = {}
    jobs, others = 0, dict[str, Mapping[str, int]]()
    for wanted in usual_kinds(records, names, job_id, until_ms):
        sql, parameters = past.spreading(wanted, names, job_id, until_ms)
        row = records(sql, **parameters)[0]
        found_jobs = int(str(row["jobs"]))
        if found_jobs >= past.JOBS_WANTED:
            kind, jobs = {name: names[name] for name in wanted}, found_jobs
            others = {name: _quantiles(row, name, jobs) for name in FIGURES}
            break
    figures = {name: SimilarFigure(own[name], others.get(name, {})) for name in FIGURES}
    return SimilarJobs(job_id, str(job["state"]), bool(job["is_over"]), kind, jobs, figures)


def known_similar_jobs(records: Records, job_id: str) -> SimilarJobs:
    """The same of a job that must be known.

    Raises:
        TrainfareError: The store does not know it.
    """
    found = similar_jobs(records, job_id)
    if found is None:
        raise TrainfareError(f"job {job_id!r}: not in this store; `trainfare jobs` lists what is")
    return found


def similar_object(of: SimilarJobs) -> dict[str, object]:
    """The comparison as commands and the API show it: dollars as decimals, `ratio`: the job's figure / the median."""
    return {
        "job_id": of.job_id,
        "state": of.state,
        "is_over": of.is_over,
        "kind": dict(of.kind),
        "jobs": of.jobs,
        "figures": {name: _figure_object(name, figure) for name, figure in of.figures.items()},
    }


def _figure_object(name: str, figure: SimilarFigure) -> dict[str, object]:
    median = figure.of_others.get("median")
    ratio = figure.of_job / median if median and figure.of_job is not None else None
    others = {each: _shown(name, value) for each, value in figure.of_others.items()}
    return {"job": _shown(name, figure.of_job), **dict.fromkeys(_NAMES.values()), **others, "ratio": ratio}


def _shown(name: str, value: int | None) -> Decimal | int | None:
    return Decimal(value).scaleb(-9) if value is not None and name in _IN_USD else value


def _quantiles(row: Mapping[str, object], name: str, jobs: int) -> dict[str, int]:
    """The quantiles by name, interpolated as `m1` does and rounded half to even."""
    low, high = (_values(row[f"{name}_{end}"]) for end in ("low", "high"))
    found = {}
    for at, percent in enumerate(past.QUANTILES):
        hundredths = (jobs - 1) * percent % 100
        found[_NAMES[percent]] = half_even(low[at] * (100 - hundredths) + high[at] * hundredths, 100)
    return found


def _values(cells: object) -> Sequence[int]:
    assert isinstance(cells, Sequence)
    return [int(each) for each in cells]
