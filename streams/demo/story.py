"""The story of the demo: an endless list of scenes in order of time.

Times are ms after the start, and everything is derived from the seed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from enum import Enum
from itertools import count
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.demo import job_specs
from streams.demo.job_specs import JobSpec


class Verb(Enum):
    """The action of a scene."""

    submit = "submit"
    scale = "scale"  # `factor` times as many GPUs, on new nodes
    scale_back = "scale_back"  # to the size first requested
    reclaim = "reclaim"  # its spot node is taken away
    crash = "crash"  # it fails and is tried again
    late_price = "late_price"
    add_node = "add_node"


class Scene(NamedTuple):
    """One action."""

    at_ms: int
    number: int  # the order of scenes at one instant
    verb: Verb
    job_id: str = ""
    factor: float = 0.0
    expected_usd_per_hour: str | None = None  # declared by an owner who scales on purpose
    spec: JobSpec | None = None
    pool: str = ""


#: Late enough for a newcomer to have looked around: 15 seconds at 60 times the speed.
RUNAWAY_MS: Final = 15 * MINUTE_MS
RUNAWAY_FACTOR: Final = 8.0
#: The page arrives after about four minutes; its owner needs about five to react. More than nine minutes in an hour
#: would cause a second page (`burn_sustained`).
RUNAWAY_LASTS_MS: Final = 8 * MINUTE_MS + 40_000
RUNAWAY_EVERY_MS: Final = 55 * MINUTE_MS
_RECLAIM_MS: Final = 22 * MINUTE_MS
_RECLAIM_EVERY_MS: Final = 83 * MINUTE_MS
_CRASH_MS: Final = 9 * MINUTE_MS
_DECLARED_MS: Final = 33 * MINUTE_MS
_BRING_UP_MS: Final = 11 * MINUTE_MS
#: Late enough for `missing_price` to be sent before it at any speed: the rules across jobs are judged on what is stored.
_LATE_PRICE_MS: Final = 118 * MINUTE_MS
#: Longer than a job takes to start, so that one which waited for GPUs does not make all after it wait longer.
_BETWEEN_JOBS_MS: Final = 4 * MINUTE_MS


def scenes(seed: int) -> Iterator[Scene]:
    """Yield the whole story in order of time, without end."""
    return heapq.merge(
        _opening(),
        _once(),
        _runaways(),
        _reclaims(),
        _sweep(seed),
        *(_succession(seed, number, jobs) for number, jobs in enumerate(job_specs.SUCCESSIONS)),
        key=lambda scene: (scene.at_ms, scene.number),
    )


def _opening() -> Iterator[Scene]:
    """Yield the jobs that run at the start."""
    ordered = sorted(job_specs.CAST, key=lambda spec: spec.begins_ms)
    for number, spec in enumerate(ordered):
        yield Scene(spec.begins_ms, number, Verb.submit, spec.job_id, spec=spec)


def _once() -> Iterator[Scene]:
    yield Scene(_CRASH_MS, 1_000, Verb.crash, job_specs.CRASHING)
    yield Scene(_BRING_UP_MS, 1_000, Verb.add_node, pool="b200")
    new = job_specs.first_unpriced_job(_BRING_UP_MS)
    yield Scene(_BRING_UP_MS, 1_001, Verb.submit, new.job_id, spec=new)
    yield Scene(
        _DECLARED_MS, 1_000, Verb.scale, job_specs.GROWING, factor=1.5, expected_usd_per_hour="336.05"
    )
    yield Scene(_LATE_PRICE_MS, 1_000, Verb.late_price)


def _runaways() -> Iterator[Scene]:
    """Yield accidental scale-outs: the owner is paged, and scales back."""
    for number in count():
        job_id = job_specs.RUNAWAYS[number % len(job_specs.RUNAWAYS)]
        at_ms = RUNAWAY_MS + number * RUNAWAY_EVERY_MS
        yield Scene(at_ms, 2_000, Verb.scale, job_id, factor=RUNAWAY_FACTOR)
        yield Scene(at_ms + RUNAWAY_LASTS_MS, 2_000, Verb.scale_back, job_id)


def _reclaims() -> Iterator[Scene]:
    for number in count():
        yield Scene(_RECLAIM_MS + number * _RECLAIM_EVERY_MS, 3_000, Verb.reclaim, job_specs.SPOT)


def _sweep(seed: int) -> Iterator[Scene]:
    """Yield short trials, as many at a time as the sweep is wide; the next begins where one ends."""
    rng = random.Random(f"{seed}/sweep")
    free = [(job_specs.SWEEP_BEGINS_MS + slot * 20_000, slot) for slot in range(job_specs.SWEEP_WIDTH)]
    for number in count(1):
        begins_ms, slot = heapq.heappop(free)
        runs_ms = rng.randrange(*job_specs.SWEEP_TRIAL_MS, 1_000)
        spec = job_specs.trial(number, begins_ms, runs_ms, _outcome(rng))
        yield Scene(begins_ms, 4_000 + slot, Verb.submit, spec.job_id, spec=spec)
        # Placing and starting take part of a minute.
        heapq.heappush(free, (begins_ms + runs_ms + MINUTE_MS, slot))


def _succession(seed: int, place: int, jobs: job_specs.Succession) -> Iterator[Scene]:
    """Yield longer jobs that take each other's place: the cast's own end within hours."""
    rng = random.Random(f"{seed}/succession/{place}")
    begins_ms = jobs.begins_ms
    for number in count():
        runs_ms = rng.randrange(*jobs.runs_ms, 1_000)
        spec = jobs.job(number, begins_ms, runs_ms, _outcome(rng))
        yield Scene(begins_ms, 5_000 + place, Verb.submit, spec.job_id, spec=spec)
        begins_ms += runs_ms + _BETWEEN_JOBS_MS


def _outcome(rng: random.Random) -> str:
    return rng.choices(("completed", "failed", "cancelled"), weights=(85, 6, 9))[0]


def captions(seed: int) -> Iterator[tuple[int, str]]:
    """Yield the captions of all scenes that have one, with their times, without end."""
    for scene in scenes(seed):
        if (said := caption(scene)) is not None:
            yield scene.at_ms, said


def caption(scene: Scene) -> str | None:
    """What a viewer should know of a scene; None if it is nothing special."""
    spec = _SPECS.get(scene.job_id) if scene.spec is None else scene.spec
    if scene.verb is Verb.late_price:
        return "the price of B200s comes: what they cost since the first minute is put right"
    if spec is None:
        return None
    if scene.verb is Verb.scale:
        wide = f"{spec.job_id} from {spec.gpus} to {int(spec.gpus * scene.factor)} GPUs"
        if scene.expected_usd_per_hour is None:
            return f"{spec.owner} scales {wide} by mistake"
        return f"{spec.owner} scales {wide} and declares what it will cost: nobody is paged"
    if scene.verb is Verb.submit and spec.job_id == job_specs.UNPRICED:
        return f"{spec.owner} rents the first B200s, which the price list does not know yet: {spec.job_id}"
    said = {
        Verb.scale_back: f"{spec.owner} scales {spec.job_id} back to {spec.gpus} GPUs",
        Verb.reclaim: f"the spot node of {spec.job_id} is reclaimed: work since its last checkpoint is lost",
        Verb.crash: f"{spec.job_id} runs out of memory and is tried again",
    }
    return said.get(scene.verb)


_SPECS: Final = {spec.job_id: spec for spec in job_specs.CAST}
