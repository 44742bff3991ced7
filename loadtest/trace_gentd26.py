"""Measured duty cycles of Alibaba's GenTD26 pods laid over the GPUs of other traces' jobs, as samples.

A tick that is missing there is a gap here.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtest.trace_files import TraceError, read_rows
from loadtest.trace_jobs import TimedEvent, TraceJob

TICK_S = 57
MIN_RUN_S = 3_600
_GPU_RANK = 20  # samples stand after the lifecycle events of their instant
_COLUMNS = ("value", "timestamp_anon", "container_ip")


@dataclass(frozen=True, slots=True)
class Series:
    """One pod's samples: tick number since its first sample -> duty cycle in percent."""

    pod: str
    percent: dict[int, float]

    @property
    def ticks(self) -> int:
        """The length of one turn, gaps included."""
        return max(self.percent) + 1


@dataclass(frozen=True, slots=True)
class Pair:
    """A job, its place in the log, and the series that its GPUs follow while it runs."""

    place: int
    job: TraceJob
    series: Series
    start_ms: int
    run_s: int


def read_series(path: Path) -> list[Series]:
    """All pods' series, by pod name."""
    times: dict[str, dict[int, float]] = {}
    for row in read_rows(path, _COLUMNS):
        at_s, percent = float(row["timestamp_anon"]), float(row["value"])
        if not 0 <= percent <= 100:
            raise TraceError(f"{path}: `value`: got {percent}, expected a duty cycle of 0 to 100 percent")
        times.setdefault(row["container_ip"], {})[int(at_s)] = percent
    series = []
    for pod, by_time in sorted(times.items()):
        first_s = min(by_time)
        series.append(Series(pod, {(at - first_s) // TICK_S: by_time[at] for at in sorted(by_time)}))
    return series


def pair(jobs: Iterable[TraceJob], series: list[Series]) -> list[Pair]:
    """The k-th ended GPU job of at least an hour (by start, then trace order) gets pod k's series."""
    fit = []
    for job in jobs:
        if job.gpu_milli and job.start_ms is not None and job.end_ms is not None:
            run_s = (job.end_ms - job.start_ms) // 1000
            if run_s >= MIN_RUN_S:
                fit.append((job.start_ms, run_s, job))
    fit.sort(key=lambda one: one[0])
    return [
        Pair(place, job, one, start_ms, run_s)
        for place, ((start_ms, run_s, job), one) in enumerate(zip(fit, series, strict=False))
    ]


def sample_events(pairs: Iterable[Pair]) -> Iterator[TimedEvent]:
    """One `gpu` event a tick and node, all its GPUs alike; the series repeats until the job ends."""
    for one in pairs:
        nodes = _nodes(one)
        ticks = one.series.ticks
        for tick in range(one.run_s // TICK_S):
            percent = one.series.percent.get(tick % ticks)
            if percent is None:
                continue
            time_ms = one.start_ms + (tick + 1) * TICK_S * 1000
            for number, (node, gpus) in enumerate(nodes):
                value = {
                    "source": "gentd26",
                    "time_ms": time_ms,
                    "interval_ms": TICK_S * 1000,
                    "node": node,
                    "job_id": one.job.job_id,
                    "gpus": gpus,
                    "util_ratio": [percent / 100] * len(gpus),
                }
                yield TimedEvent(time_ms, one.place, _GPU_RANK, number, "gpu", value)


def _nodes(one: Pair) -> list[tuple[str, list[str]]]:
    """Node names made from the pod's, each with its GPUs; a share of a GPU is sampled as one GPU."""
    gpus = -(-one.job.gpu_milli // 1000)
    count = min(one.job.node_count, gpus)
    each, extra = divmod(gpus, count)
    return [
        (f"{one.series.pod[:8]}-{number}", [str(gpu) for gpu in range(each + (number < extra))])
        for number in range(count)
    ]


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """The pairs as CSV, so that a reader can check the rule."""
    with path.open("w", encoding="utf-8", newline="") as text:
        out = csv.writer(text, lineterminator="\n")
        out.writerow(("job_id", "pod", "gpu_count", "nodes", "run_s", "series_ticks", "ticks"))
        for one in pairs:
            out.writerow(
                (
                    one.job.job_id,
                    one.series.pod,
                    one.job.gpu_milli / 1000,
                    len(_nodes(one)),
                    one.run_s,
                    one.series.ticks,
                    one.run_s // TICK_S,
                )
            )
