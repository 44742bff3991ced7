"""Reads what MLflow's REST API answers: experiments and runs with their tags and newest metrics.

Only fields named here are read: parameters and other tags may hold secrets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from schemas.escaping import visible
from streams.accounts.account import KeyedAccount
from streams.collect.collector import SourceUnavailableError

_FIRST_MS: Final = 946_684_800_000  # 2000; events are not older
_LAST_MS: Final = 10_413_792_000_000  # 2300
ENDS: Final[Mapping[str, str]] = {"FINISHED": "completed", "FAILED": "failed", "KILLED": "cancelled"}
#: Metrics that the collector writes itself.
COSTS: Final = ("cost_usd", "usd_per_hour", "lost_usd")
_LIVE: Final = frozenset({"RUNNING", "SCHEDULED"})


class RunMetric(NamedTuple):
    """The newest value of a metric; `value` may be no finite number."""

    value: float
    at_ms: int
    step: int


class TrackedRun(NamedTuple):
    """A run. Times in ms, 0: none. A run that was resumed is live and still has the end that it had before."""

    run_id: str
    experiment_id: str
    name: str
    status: str
    start_ms: int
    end_ms: int
    is_deleted: bool
    tags: Mapping[str, str]
    metrics: Mapping[str, RunMetric]
    uses_gpus: bool = False  #: its system metrics name GPUs
    is_backwards: bool = False  #: it was said to end before its start, and ends at that
    logged_ms: int = 0  #: when it logged something last; 0: never

    @property
    def is_live(self) -> bool:
        """Whether it goes on."""
        return self.status in _LIVE and not self.is_deleted


class RunPage(NamedTuple):
    """Some runs, and the token of the next page; empty: there is none."""

    runs: Sequence[TrackedRun]
    next_page: str


class _RunInfo(msgspec.Struct):
    run_id: str
    experiment_id: str
    status: str
    start_time: int | str | None = None
    end_time: int | str | None = None
    run_name: str | None = None
    user_id: str | None = None
    lifecycle_stage: str | None = None


class _Tag(msgspec.Struct):
    key: str
    value: str = ""


class _WireMetric(msgspec.Struct):
    key: str
    value: float | str = 0.0
    timestamp: int | str = 0
    step: int | str = 0


class _RunData(msgspec.Struct):
    metrics: list[_WireMetric] = []
    tags: list[_Tag] = []


class _WireRun(msgspec.Struct):
    info: _RunInfo
    data: _RunData = msgspec.field(default_factory=_RunData)


class _RunsAnswer(msgspec.Struct):
    runs: list[msgspec.Raw] = []
    next_page_token: str | None = None


class _RunAnswer(msgspec.Struct):
    run: msgspec.Raw


class _Experiment(msgspec.Struct):
    experiment_id: str
    name: str


class _ExperimentsAnswer(msgspec.Struct):
    experiments: list[_Experiment] = []
    next_page_token: str | None = None


Form = TypeVar("Form")
#: Starts and ends may be of two machines, whose clocks differ by less.
_SKEW_MS: Final = 60_000


def experiments_of(answer: bytes) -> tuple[dict[str, str], str]:
    """Id -> name of a page of experiments, and the token of the next page.

    Raises:
        SourceUnavailableError: It is not MLflow's JSON.
    """
    found = _decoded("experiments", answer, _ExperimentsAnswer)
    return {each.experiment_id: each.name for each in found.experiments}, found.next_page_token or ""


def runs_of(answer: bytes, account: KeyedAccount) -> RunPage:
    """A page of runs; what cannot be read is added to `account` by its text, as several answers of a poll may have it.

    Raises:
        SourceUnavailableError: It is not MLflow's JSON at all.
    """
    found = _decoded("runs", answer, _RunsAnswer)
    runs = [run for raw in found.runs if (run := _read(raw, account)) is not None]
    return RunPage(runs, found.next_page_token or "")


def run_of(answer: bytes, account: KeyedAccount) -> TrackedRun | None:
    """One run; None, and what is wrong in `account`, if it cannot be read.

    Raises:
        SourceUnavailableError: It is not MLflow's JSON at all.
    """
    return _read(_decoded("run", answer, _RunAnswer).run, account)


def _decoded(what: str, answer: bytes, form: type[Form]) -> Form:
    try:
        return msgspec.json.decode(answer, type=form)
    except (ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"{what}: no JSON of MLflow ({visible(str(fault)[:200])})") from None


def _read(raw: msgspec.Raw, account: KeyedAccount) -> TrackedRun | None:
    try:
        return _run(msgspec.json.decode(raw, type=_WireRun))
    except (ValueError, RecursionError) as fault:
        account.not_understood(bytes(raw), "malformed", f"runs: {str(fault)[:300]}")
        return None


def _run(run: _WireRun) -> TrackedRun:
    info = run.info
    name = info.run_id[:80]
    start_ms, end_ms = _time(info.start_time), _time(info.end_time)
    if not 0 < len(info.run_id.encode()) <= 100 or not start_ms:
        raise ValueError(f"run {name} has no start, or no id of at most 100 bytes")
    if info.status not in _LIVE | ENDS.keys():
        raise ValueError(f"run {name}: status {info.status[:40]} is not known")
    if info.status in ENDS and not end_ms:
        raise ValueError(f"run {name} has ended, and MLflow does not say when")
    tags = {tag.key: tag.value for tag in run.data.tags}
    metrics = {each.key: _metric(each) for each in run.data.metrics}
    if info.user_id:
        tags.setdefault("mlflow.user", info.user_id)
    return TrackedRun(
        run_id=info.run_id,
        experiment_id=info.experiment_id,
        name=info.run_name or "",
        status=info.status,
        start_ms=start_ms,
        end_ms=max(end_ms, start_ms) if end_ms else 0,
        is_deleted=info.lifecycle_stage == "deleted",
        tags=tags,
        metrics=metrics,
        is_backwards=0 < end_ms < start_ms - _SKEW_MS,
        uses_gpus=any(name.startswith("system/gpu_") for name in metrics),
        logged_ms=max((each.at_ms for name, each in metrics.items() if name not in COSTS), default=0),
    )


def _metric(metric: _WireMetric) -> RunMetric:
    try:
        value, at_ms, step = float(metric.value), int(metric.timestamp), int(metric.step)
    except ValueError:
        value, at_ms, step = math.nan, 0, 0
    return RunMetric(value, at_ms, step if abs(step) < 2**53 else 0)


def _time(value: int | str | None) -> int:
    """Ms since 1970; 0 where there are none. Older servers write 64-bit numbers as texts."""
    number = int(value or 0)
    if number <= 0:
        return 0
    if not _FIRST_MS <= number < _LAST_MS:
        raise ValueError(f"{number} is no time of this century in ms")
    return number
