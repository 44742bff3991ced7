"""The whole labelled log: clean jobs, jobs with one incident each, and what is true of them.

The same shape and seed give the same lines.
"""

from __future__ import annotations

import csv
import gzip
import heapq
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from loadtest.labelled import crowds, market
from loadtest.labelled.incidents import KINDS, length_ms
from loadtest.labelled.job import JobSpec, LabelledJob, draw_spec, letters_of
from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.backtest.labels import COLUMNS, Label

BEGIN_MS: Final = 1_780_272_000_000  # 2026-06-01T00:00:00Z


@dataclass(frozen=True)
class WorldShape:
    """How much of everything; `median_hours` is how long half of the clean jobs last at most."""

    clean_job_days: float
    incidents_each: int
    days: float  # jobs begin in this time
    median_hours: float = 8.0
    most_hours: float = 24.0
    most_gpus: int = 32
    seed: int = 1
    part: str = ""  # at the end of the jobs' names, where several logs are judged
    tenfold: int = 1  # incidents of ten times the rate, in multiples of those of other kinds


# The smallest jobs need five minutes for the dollar from which on a burn rule opens, at ten times their rate: with one job
# in sixty of them, 64 incidents would say little about a bound of 97 %.
LARGE: Final = WorldShape(clean_job_days=2_010, incidents_each=64, days=2, tenfold=4)
SMALL: Final = WorldShape(
    clean_job_days=0.6, incidents_each=1, days=0.1, median_hours=3, most_hours=5, most_gpus=4
)


@dataclass(frozen=True)
class LabelledWorld:
    """Events in the order in which they come, and what is true of them."""

    events: list[tuple[int, str, dict[str, Any]]]
    labels: list[Label]
    team_labels: list[Label]  # `job_id` is the name of a team
    involved: list[str]  # jobs that are part of an incident and have no label of their own
    clean_job_days: float


def make_world(shape: WorldShape) -> LabelledWorld:
    """Make the log."""
    rng = random.Random(f"labelled-{shape.seed}")
    events: list[tuple[int, str, dict[str, Any]]] = []
    clean_ms = number = 0
    clean: list[JobSpec] = []
    while clean_ms < shape.clean_job_days * DAY_MS:
        hours = min(max(shape.median_hours * rng.lognormvariate(0, 0.8), 1), shape.most_hours)
        job = _job(shape, rng, f"clean-{number}{shape.part}", int(hours * HOUR_MS))
        job.run()
        events += job.events
        clean.append(job.spec)
        clean_ms += job.spec.end_ms - job.spec.begin_ms
        number += 1
    labels = []
    for name, kind in KINDS.items():
        for each in range(shape.incidents_each * (shape.tenfold if name == "10x" else 1)):
            before_ms = rng.randrange(90 * MINUTE_MS, 4 * HOUR_MS) + (
                5 * HOUR_MS if rng.random() < 0.5 else 0
            )
            lasts_ms, after_ms = length_ms(kind, rng), rng.randrange(HOUR_MS, 2 * HOUR_MS)
            fixed = dict(kind.fixed)
            # Names that differ in digits only are of one kind, whose habit the fault would be.
            job = _job(
                shape, rng, f"{name}-{letters_of(each)}{shape.part}", before_ms + lasts_ms + after_ms, **fixed
            )
            from_ms = job.spec.begin_ms + before_ms
            kind.begin(job, from_ms, from_ms + lasts_ms)
            job.run()
            events += job.events
            labels.append(Label(job.spec.job_id, name, from_ms, from_ms + lasts_ms))
    tests, sweeps = _crowds(shape, rng, clean)
    events += [event for crowd in (*tests, *sweeps) for job in crowd.jobs for event in job.events]
    labels += [crowd.label for crowd in tests]
    end_ms = max(value["time_ms"] for _, _, value in events) + HOUR_MS
    prices = (
        (comes_ms, "prices", value) for comes_ms, value in market.price_events(BEGIN_MS, end_ms, shape.seed)
    )
    # What comes at one instant: prices first, then by job and place.
    events.sort(key=lambda event: (event[0], event[2]["job_id"], int(event[2]["id"])))
    first = crowds.limits(shape.part, BEGIN_MS)
    return LabelledWorld(
        list(heapq.merge(first, prices, events, key=lambda event: event[0])),
        labels,
        [crowd.label for crowd in sweeps],
        [job.spec.job_id for crowd in sweeps for job in crowd.jobs],
        clean_ms / DAY_MS,
    )


def _crowds(
    shape: WorldShape, rng: random.Random, clean: Sequence[JobSpec]
) -> tuple[list[crowds.Crowd], list[crowds.Crowd]]:
    """Make the incidents of several jobs: oversized tests, and sweeps, one at a time."""
    begin_ms = BEGIN_MS + 10 * HOUR_MS  # tests go before, and the cluster has filled up
    spread_ms = max(int(shape.days * DAY_MS) - 10 * HOUR_MS, HOUR_MS)
    tests, sweeps = [], []
    for place in range(shape.incidents_each):
        at_ms = begin_ms + rng.randrange(spread_ms)
        tests.append(crowds.oversized_test(rng, place, shape.part, at_ms))
        at_ms = begin_ms + place * 4 * HOUR_MS + rng.randrange(HOUR_MS // 2)
        sweeps.append(crowds.team_takes_cluster(rng, place, shape.part, at_ms, clean))
    return tests, sweeps


def _job(shape: WorldShape, rng: random.Random, job_id: str, length: int, **fixed: Any) -> LabelledJob:
    begin_ms = BEGIN_MS + HOUR_MS + rng.randrange(int(shape.days * DAY_MS))
    spec = draw_spec(rng, job_id, begin_ms, length, **fixed)
    if spec.gpus > shape.most_gpus:
        spec = draw_spec(rng, job_id, begin_ms, length, **(fixed | {"gpus": shape.most_gpus}))
    return LabelledJob(spec, random.Random(f"{shape.seed}-{job_id}"))


def write_world(world: LabelledWorld, log: Path, labels: Path) -> int:
    """Write the log (.jsonl or .jsonl.gz) and the labels; return the number of lines."""
    with log.open("wb") as raw:
        if log.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=1, mtime=0) as packed:
                packed.writelines(_lines(world))
        else:
            raw.writelines(_lines(world))
    with labels.open("w", newline="") as text:
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows(world.labels)
    return len(world.events)


def _lines(world: LabelledWorld) -> Iterator[bytes]:
    for _, topic, value in world.events:
        yield orjson.dumps({"topic": topic, "value": value}) + b"\n"
