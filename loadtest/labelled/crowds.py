"""Incidents that only a look at other jobs shows: a test job far larger than such tests are, a team that takes the cluster."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from loadtest.labelled import market
from loadtest.labelled.job import JobSpec, LabelledJob, draw_spec, letters_of
from schemas.durations import HOUR_MS, MINUTE_MS
from streams.backtest.labels import Label

OVERSIZED_TEST: Final = "oversized_test"
TEAM_TAKES_CLUSTER: Final = "team_takes_cluster"
#: Somebody forgets to set the number of GPUs, and the launcher takes what a training job has.
_LAUNCHER_GPUS: Final = 64
_TRIAL_GPUS: Final = 128
SWEEPERS: Final = "sweepers"
_SHARE_LIMIT: Final = 0.6
#: What the sweep costs, of what all other jobs cost meanwhile: it has five sevenths of the cluster.
_SWEEP_SHARE: Final = 2.5
_STEADY: Final[dict[str, Any]] = {"rescales": 0, "has_traffic": False, "heard": ""}


class Crowd(NamedTuple):
    """Jobs with ordinary ones among them, and what is true of one of them, or of the team."""

    jobs: list[LabelledJob]
    ordinary: int  # so many of the first ones have nothing to do with the incident
    label: Label


def oversized_test(rng: random.Random, place: int, part: str, at_ms: int) -> Crowd:
    """Tests of one or two GPUs, some four, and then one with the launcher's default; at `at_ms` it starts."""
    word = letters_of(place)
    same = {
        "gpu_type": rng.choice(tuple(market.ON_DEMAND_USD)),
        "purchase": rng.choice(("on_demand", "spot")),
        "region": rng.choice(market.REGIONS),
        # Half of the tests are known as such by their experiment, half by their names.
        "experiment": f"exp-{word}{part}" if place % 2 else "",
        **_STEADY,
    }
    jobs = []
    for number in range(rng.randrange(12, 30)):
        begin_ms = at_ms - rng.randrange(70 * MINUTE_MS, 9 * HOUR_MS)
        length_ms = rng.randrange(15 * MINUTE_MS, 45 * MINUTE_MS)
        gpus = rng.choice((1, 1, 2, 2, 4))
        name = f"{rng.getrandbits(64):016x}{part}" if place % 2 else f"test-{word}-{number}{part}"
        jobs.append(_job(draw_spec(rng, name, begin_ms, length_ms, gpus=gpus, **same), rng))
    name = f"{rng.getrandbits(64):016x}{part}" if place % 2 else f"test-{word}-99{part}"
    length_ms = rng.randrange(2 * HOUR_MS, 4 * HOUR_MS)
    # Nobody declares what was not meant: a rate that is declared is expected.
    large = replace(draw_spec(rng, name, at_ms, length_ms, gpus=_LAUNCHER_GPUS, **same), declares=False)
    jobs.append(_job(large, rng))
    return Crowd(jobs, len(jobs) - 1, Label(name, OVERSIZED_TEST, at_ms, at_ms + length_ms))


def team_takes_cluster(
    rng: random.Random, place: int, part: str, at_ms: int, others: Iterable[JobSpec]
) -> Crowd:
    """A sweep, trial after trial within half an hour, until its team has most of what is used."""
    length_ms = rng.randrange(120 * MINUTE_MS, 150 * MINUTE_MS)
    usd = sum(
        market.job_usd_per_hour(spec.gpus, spec.gpu_type, spec.purchase)
        for spec in others
        if spec.begin_ms < at_ms + length_ms and spec.end_ms > at_ms
    )
    trials = -(-_SWEEP_SHARE * usd // market.job_usd_per_hour(_TRIAL_GPUS, "H100", "on_demand"))
    jobs = []
    for number in range(max(int(trials), 1)):
        begin_ms = at_ms + (rng.randrange(30 * MINUTE_MS) if number else 0)
        spec = draw_spec(
            rng, f"sweep-{letters_of(place)}-{number}{part}", begin_ms, at_ms + length_ms - begin_ms, gpus=_TRIAL_GPUS,
            gpu_type="H100", purchase="on_demand", team=f"{SWEEPERS}{part}", declares=True, **_STEADY,
        )  # fmt: skip
        jobs.append(_job(spec, rng))
    label = Label(f"{SWEEPERS}{part}", TEAM_TAKES_CLUSTER, at_ms, at_ms + length_ms)
    return Crowd(jobs, 0, label)


def limits(part: str, at_ms: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the limit of what the team may take of the cluster; no rule has one by default."""
    name = f"{SWEEPERS}{part}"
    limit = {"rule": "team_burn", "team": name, "thresholds": {"share_ratio": _SHARE_LIMIT}}
    said = {"source": "platform", "id": "limit", "time_ms": at_ms, "kind": "rule", "name": "sweepers-share"}
    yield at_ms, "controls", said | limit


def _job(spec: JobSpec, rng: random.Random) -> LabelledJob:
    job = LabelledJob(spec, random.Random(rng.random()))
    job.interrupts = False
    job.run()
    return job
