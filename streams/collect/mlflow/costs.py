"""Writes what the meter says of a run's job back into MLflow: the metrics cost_usd, usd_per_hour and lost_usd.

It writes what has changed, and never at a lower step than before: MLflow takes the value of the highest step for the newest,
and a run that resumes from a checkpoint counts its steps down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from schemas.escaping import visible
from streams.accounts.account import Account
from streams.collect.collector import SourceUnavailableError
from streams.collect.http_source import BadStatusError, OutsideApi
from streams.collect.mlflow.api import TrackingServer
from streams.collect.mlflow.records import COSTS, TrackedRun

_JOBS: Final = "/api/v1/jobs"
_LISTED_AT_MOST: Final = 1_000
#: Jobs that burn too little to be listed are asked for one by one.
_ASKED_AT_MOST: Final = 200
_NOT_FOUND: Final = 404


class JobCost(msgspec.Struct):
    """What a job costs, in dollars."""

    job_id: str
    cost_usd: Decimal
    lost_cost_usd: Decimal
    usd_per_hour_now: Decimal | None = None  # null: none is known


class _JobsAnswer(msgspec.Struct):
    jobs: list[JobCost]


class _JobAnswer(msgspec.Struct):
    job: JobCost


Answer = TypeVar("Answer", _JobsAnswer, _JobAnswer)


class CostedRun(NamedTuple):
    """A run whose costs are to be written, with its job."""

    run: TrackedRun
    job_id: str


class CostWriter:
    """Takes costs from a meter to a tracking server."""

    def __init__(self, meter: OutsideApi, server: TrackingServer) -> None:
        self._meter = meter
        self._server = server

    def write(self, runs: Iterable[CostedRun], now_ms: int, account: Account) -> int:
        """Write the costs that have changed; return of how many runs. What does not work is added to `account`."""
        pending = list(runs)
        if not pending:
            return 0
        try:
            costs = self._costs({each.job_id for each in pending}, account)
        except SourceUnavailableError as fault:
            account.not_understood("cost_not_written", f"costs are not written: {fault}")
            return 0
        written = 0
        for run, job_id in pending:
            cost = costs.get(job_id)
            values = {} if cost is None else changed(run, cost)
            if not values:
                continue
            try:
                self._server.log_metrics(run.run_id, values, now_ms, step_of(run))
            except SourceUnavailableError as fault:
                account.not_understood(
                    "cost_not_written", f"costs of run {run.run_id} are not written: {fault}"
                )
                continue
            written += 1
        return written

    def _costs(self, job_ids: set[str], account: Account) -> dict[str, JobCost]:
        answer = self._meter.get(f"{_JOBS}?order=burn&limit={_LISTED_AT_MOST}")
        found = {each.job_id: each for each in _decoded(answer, _JobsAnswer).jobs}
        missing = sorted(job_ids - found.keys())
        if len(missing) > _ASKED_AT_MOST:
            said = f"costs of {len(missing) - _ASKED_AT_MOST} jobs are not written: too many are asked for"
            account.not_understood("cost_not_written", said)
        for job_id in missing[:_ASKED_AT_MOST]:
            try:
                found[job_id] = _decoded(self._meter.get(f"{_JOBS}/{quote(job_id, safe='')}"), _JobAnswer).job
            except BadStatusError as fault:
                if fault.status != _NOT_FOUND:  # the meter has no event of it yet
                    raise
        return found


def changed(run: TrackedRun, cost: JobCost) -> dict[str, float]:
    """The metrics of a run that are not what the meter says."""
    values = zip(COSTS, (cost.cost_usd, cost.usd_per_hour_now or 0, cost.lost_cost_usd), strict=True)
    found: dict[str, float] = {}
    for name, value in values:
        before = run.metrics.get(name)
        if before is None or not math.isclose(before.value, float(value), rel_tol=1e-12, abs_tol=1e-9):
            found[name] = float(value)
    return found


def step_of(run: TrackedRun) -> int:
    """The highest step of a run's metrics."""
    return max((metric.step for metric in run.metrics.values()), default=0)


def _decoded(answer: bytes, form: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(answer, type=form)
    except (ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"no JSON of the meter ({visible(str(fault)[:200])})") from None
