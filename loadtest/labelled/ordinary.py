"""A fleet of ordinary work of twelve kinds, in which nothing is wrong: every message about it is a false one.

No job declares what it should cost. The same shape and seed give the same lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from loadtest.labelled import market
from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS

BEGIN_MS: Final = 1_780_272_000_000  # Monday, 2026-06-01T00:00:00Z
_SAMPLE_MS: Final = 5 * MINUTE_MS
Event = tuple[int, str, dict[str, Any]]


@dataclass(frozen=True)
class OrdinaryShape:
    """How long the fleet is watched, and how many of each kind there are, in multiples."""

    days: int
    times: int
    seed: int = 1
    part: str = ""  # at the end of the jobs' names, where several logs are judged


class OrdinaryJob:
    """Writes the events of one job; each method says one thing that happens at an instant."""

    def __init__(self, rng: random.Random, job_id: str, kind: str, **about: Any) -> None:
        self.rng = rng
        self.job_id = job_id
        self.attempt = 1
        self.source = "fleet"
        self.events: list[Event] = []
        usual = {"gpu_type": "H100", "purchase": "on_demand", "region": "us-east-1", "cluster": "main"}
        self._about = {"team": f"team-{kind}", "owner": f"owner-{kind}", **usual, **about}
        self._about = {name: value for name, value in self._about.items() if value is not None}

    def say(self, topic: str, at_ms: int, **value: Any) -> None:
        """Add an event, which comes up to eight seconds late."""
        said = {
            "source": self.source,
            "id": f"{len(self.events)}",
            "time_ms": at_ms,
            "job_id": self.job_id,
        }
        self.events.append((at_ms + self.rng.randrange(8_000), topic, said | value))

    def tell(self, kind: str, at_ms: int, **value: Any) -> None:
        """Add a lifecycle event of the present attempt."""
        self.say("jobs", at_ms, type=kind, attempt=self.attempt, **value)

    def start(self, at_ms: int, gpus: float, **value: Any) -> None:
        """Begin the present attempt."""
        self.tell("started", at_ms, gpu_count=gpus, **self._about, **value)

    def work(
        self, from_ms: int, until_ms: int, gpus: int, busy: Callable[[int, int], float], memory_gib: int = 60
    ) -> None:
        """Samples of its GPUs every five minutes: `busy(at_ms, gpu)` is what each does."""
        for at_ms in range(from_ms + _SAMPLE_MS, until_ms, _SAMPLE_MS):
            for node in range(-(-gpus // 8)):
                ids = range(8 * node, min(8 * node + 8, gpus))
                ratios = [round(min(max(self.rng.gauss(busy(at_ms, gpu), 0.04), 0.0), 1.0), 3) for gpu in ids]
                self.say(
                    "gpu", at_ms, node=f"{self.job_id}-{node}", attempt=self.attempt, interval_ms=_SAMPLE_MS,
                    gpus=[str(gpu) for gpu in ids], util_ratio=ratios,
                    memory_used_mib=[memory_gib * 1024] * len(ids), **self._about,
                )  # fmt: skip

    def checkpoints(self, from_ms: int, until_ms: int, every_ms: int) -> None:
        """Say that it saved its work, again and again."""
        for at_ms in range(from_ms + every_ms, until_ms, every_ms):
            self.tell("checkpointed", at_ms)

    def beats(self, from_ms: int, until_ms: int, every_ms: int = 4 * MINUTE_MS) -> None:
        """Heartbeats with the step that it has reached."""
        for number, at_ms in enumerate(range(from_ms + every_ms, until_ms, every_ms)):
            self.tell("heartbeat", at_ms, progress={"step": 100 * number})


def _training(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """One node: data is staged for 20 min, then three evaluations between epochs."""
    until_ms = at_ms + int(job.rng.uniform(6, 14) * HOUR_MS)
    stages_ms = at_ms + int(job.rng.uniform(10, 25) * MINUTE_MS)
    evals = [job.rng.randrange(stages_ms, until_ms - HOUR_MS) for _ in range(3)]
    long_ms = int(job.rng.uniform(8, 25) * MINUTE_MS)

    def busy(now_ms: int, _gpu: int) -> float:
        if now_ms < stages_ms:
            return 0.02
        return 0.25 if any(each <= now_ms < each + long_ms for each in evals) else 0.85

    job.start(at_ms, 8)
    job.work(at_ms, until_ms, 8, busy)
    job.beats(stages_ms, until_ms)
    job.checkpoints(stages_ms, until_ms, HOUR_MS)
    job.tell("completed", until_ms)


def _multi_node(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """Pods join one after the other; one of the nodes fails, and the job goes on from its checkpoint."""
    nodes = job.rng.choice((2, 4, 8))
    until_ms = at_ms + int(job.rng.uniform(8, 20) * HOUR_MS)
    fails_ms = job.rng.randrange(at_ms + 2 * HOUR_MS, until_ms - 2 * HOUR_MS)
    again_ms = fails_ms + int(job.rng.uniform(2, 8) * MINUTE_MS)
    for begin_ms, end_ms in ((at_ms, fails_ms), (again_ms, until_ms)):
        job.start(begin_ms, 8)
        joined_ms = begin_ms
        for node in range(1, nodes):
            joined_ms += int(job.rng.uniform(3_000, 180_000 / nodes))
            job.tell("scaled", joined_ms, gpu_count=8 * (node + 1))
        job.work(joined_ms, end_ms, 8 * nodes, lambda _now, _gpu: 0.8)
        job.beats(joined_ms, end_ms)
        job.checkpoints(joined_ms, end_ms, 45 * MINUTE_MS)
        if end_ms == fails_ms:
            job.tell("failed", end_ms, reason="node_failure")
            job.attempt += 1
    job.tell("completed", until_ms)


def _ray(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """A head of CPUs begins, and its GPUs come minutes later."""
    until_ms = at_ms + int(job.rng.uniform(3, 8) * HOUR_MS)
    gpus_ms = at_ms + int(job.rng.uniform(2, 9) * MINUTE_MS)
    job.start(at_ms, 0, cpu_count=16)
    job.tell("scaled", gpus_ms, gpu_count=16, cpu_count=208)
    job.work(gpus_ms, until_ms, 16, lambda _now, _gpu: 0.7)
    job.tell("completed", until_ms)


def _spot(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """Three preemptions a day, and a checkpoint each half hour."""
    until_ms = at_ms + int(job.rng.uniform(20, 40) * HOUR_MS)
    begin_ms = at_ms
    while begin_ms < until_ms:
        end_ms = min(begin_ms + HOUR_MS + int(job.rng.expovariate(3) * DAY_MS), until_ms)
        job.start(begin_ms, 8)
        job.work(begin_ms, end_ms, 8, lambda _now, _gpu: 0.8)
        job.beats(begin_ms, end_ms)
        job.checkpoints(begin_ms, end_ms, 30 * MINUTE_MS)
        if end_ms == until_ms:
            job.tell("completed", until_ms)
            return
        job.tell("preempted", end_ms, reason="spot_reclaim")
        job.attempt += 1
        begin_ms = end_ms + int(job.rng.uniform(2, 9) * MINUTE_MS)


def _notebook(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """A working day at one GPU, with lunch, and times at which somebody thinks."""
    until_ms = at_ms + int(job.rng.uniform(7, 9) * HOUR_MS)
    lunch_ms = at_ms + int(job.rng.uniform(3, 4.5) * HOUR_MS)

    def busy(now_ms: int, _gpu: int) -> float:
        if lunch_ms <= now_ms < lunch_ms + 55 * MINUTE_MS:
            return 0.0
        return 0.6 if now_ms // (15 * MINUTE_MS) % 2 else 0.05

    job.start(at_ms, 1)
    job.work(at_ms, until_ms, 1, busy, memory_gib=20)
    job.tell("cancelled", until_ms)


def _preparing(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """CPUs that read from another region, each day about as much: mostly traffic."""
    until_ms = at_ms + 4 * HOUR_MS
    job.start(at_ms, 0, cpu_count=64)
    for now_ms in range(at_ms + 15 * MINUTE_MS, until_ms, 15 * MINUTE_MS):
        job.say(
            "network", now_ms, attempt=1, interval_ms=15 * MINUTE_MS, path="cross_region", direction="ingress",
            bytes=int(job.rng.uniform(110e9, 140e9)),
        )  # fmt: skip
    job.tell("completed", until_ms)


def _trial(job: OrdinaryJob, at_ms: int, _: int) -> None:
    until_ms = at_ms + int(job.rng.uniform(40, 100) * MINUTE_MS)
    job.start(at_ms, 1)
    job.work(at_ms, until_ms, 1, lambda now_ms, _gpu: 0.02 if now_ms < at_ms + 6 * MINUTE_MS else 0.7)
    job.tell(*("failed", until_ms) if job.rng.random() < 0.08 else ("completed", until_ms))


def _fine_tuning(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """Three quarters of an hour of evaluation on one of eight GPUs, after each three hours of training."""
    until_ms = at_ms + int(job.rng.uniform(5, 9) * HOUR_MS)

    def busy(now_ms: int, gpu: int) -> float:
        evaluates = (now_ms - at_ms) % (225 * MINUTE_MS) >= 180 * MINUTE_MS
        return (0.9 if gpu == 0 else 0.0) if evaluates else 0.85

    job.start(at_ms, 8)
    job.work(at_ms, until_ms, 8, busy)
    job.tell("completed", until_ms)


def _inference(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """Batch inference, which reads its inputs."""
    until_ms = at_ms + int(job.rng.uniform(2, 5) * HOUR_MS)
    job.start(at_ms, 4)
    job.work(at_ms, until_ms, 4, lambda _now, _gpu: 0.5)
    for now_ms in range(at_ms + 10 * MINUTE_MS, until_ms, 10 * MINUTE_MS):
        job.say(
            "storage", now_ms, attempt=1, interval_ms=10 * MINUTE_MS, op="read", requests=20_000, bytes=10**11
        )
    job.tell("completed", until_ms)


def _rlhf(job: OrdinaryJob, at_ms: int, _: int) -> None:
    """Generation and training in turns of 25 min: half of the GPUs wait for the other half."""
    until_ms = at_ms + int(job.rng.uniform(8, 16) * HOUR_MS)

    def busy(now_ms: int, gpu: int) -> float:
        generates = (now_ms - at_ms) // (25 * MINUTE_MS) % 2 == 0
        return 0.85 if generates == (gpu < 8) else 0.04

    job.start(at_ms, 16)
    job.work(at_ms, until_ms, 16, busy)
    job.beats(at_ms, until_ms, 10 * MINUTE_MS)
    job.checkpoints(at_ms, until_ms, 2 * HOUR_MS)
    job.tell("completed", until_ms)


def _debugging(job: OrdinaryJob, at_ms: int, _: int) -> None:
    until_ms = at_ms + int(job.rng.uniform(4, 35) * MINUTE_MS)
    job.start(at_ms, job.rng.choice((1, 1, 2, 4, 8)))
    if job.rng.random() < 0.4:
        job.tell("failed", until_ms, reason="user_error")
    else:
        job.tell("cancelled", until_ms)


def _weekly(job: OrdinaryJob, at_ms: int, week: int) -> None:
    """Each week on five per cent more data; on 32 GPUs, where its team has else jobs of one."""
    until_ms = at_ms + int(6 * HOUR_MS * 1.05**week)
    job.start(at_ms, 32)
    job.work(at_ms, until_ms, 32, lambda _now, _gpu: 0.85)
    job.beats(at_ms, until_ms)
    job.checkpoints(at_ms, until_ms, HOUR_MS)
    job.tell("completed", until_ms)


#: Kind -> what its jobs do, how many begin in a day, and the hour from which on they do.
_DAILY: Final[dict[str, tuple[Callable[[OrdinaryJob, int, int], None], int, float]]] = {
    "training": (_training, 3, 0),
    "multinode": (_multi_node, 2, 0),
    "ray": (_ray, 2, 6),
    "spot": (_spot, 1, 0),
    "notebook": (_notebook, 3, 8),
    "prepare": (_preparing, 1, 2),
    "finetune": (_fine_tuning, 2, 0),
    "infer": (_inference, 3, 4),
    "rlhf": (_rlhf, 1, 0),
    "debug": (_debugging, 8, 8),
}
_LABELS: Final[dict[str, dict[str, Any]]] = {
    "prepare": {"gpu_type": None},
    "infer": {"gpu_type": "L40S"},
    "notebook": {"labels": {"interactive": "true"}},
    "spot": {"purchase": "spot"},
}
KINDS: Final = (*_DAILY, "sweep", "weekly")


def jobs_of(shape: OrdinaryShape) -> Iterator[OrdinaryJob]:
    """Yield each job with its events, kind by kind; the name of a job begins with its kind."""
    for fleet in range(shape.times):
        rng = random.Random(f"ordinary-{shape.seed}-{shape.part}-{fleet}")
        word = f"{chr(ord('a') + fleet)}{shape.part}"
        for day in range(shape.days):
            day_ms = BEGIN_MS + day * DAY_MS
            is_weekend = day % 7 >= 5
            for kind, (run, a_day, hour) in _DAILY.items():
                for number in range(a_day if not is_weekend else a_day // 2):
                    at_ms = day_ms + int((hour + rng.uniform(0, 8 if hour else 20)) * HOUR_MS)
                    job_id = f"{kind}-{word}-{day * 10 + number}"
                    yield _made(run, rng, job_id, f"{kind}-{word}", at_ms, day // 7, **_LABELS.get(kind, {}))
            if day % 3 == 1:
                at_ms = day_ms + int(rng.uniform(0, 12) * HOUR_MS)
                for trial in range(40):
                    begin_ms = at_ms + trial * 3 * MINUTE_MS + rng.randrange(MINUTE_MS)
                    about = {"experiment": f"lr-{word}-{day}"}
                    yield _made(
                        _trial, rng, f"sweep-{word}-{day}-{trial}", f"sweep-{word}", begin_ms, 0, **about
                    )
            if day % 7 == 0:
                at_ms = day_ms + 10 * HOUR_MS
                yield _made(_weekly, rng, f"weekly-{word}-{day // 7}", f"debug-{word}", at_ms, day // 7)


def _made(
    run: Callable[[OrdinaryJob, int, int], None],
    rng: random.Random,
    job_id: str,
    kind: str,
    at_ms: int,
    week: int,
    **about: Any,
) -> OrdinaryJob:
    job = OrdinaryJob(random.Random(rng.random()), job_id, kind, **about)
    run(job, at_ms, week)
    return job


def make_events(shape: OrdinaryShape, more: Iterable[Event] = ()) -> list[Event]:
    """All lines in the order in which they come, prices first; `more`: of other jobs and nodes in the same log."""
    events = [*(event for job in jobs_of(shape) for event in job.events), *more]
    end_ms = max(comes_ms for comes_ms, _, _ in events) + HOUR_MS
    # Of one job in the order in which they were said.
    events.sort(key=lambda event: (event[0], event[2].get("job_id", "")))
    prices = [(at_ms, "prices", value) for at_ms, value in market.price_events(BEGIN_MS, end_ms, shape.seed)]
    reads: Event = (
        BEGIN_MS,
        "prices",
        {
            "source": "market", "id": "reads", "time_ms": BEGIN_MS, "sku": "reads", "component": "storage", "usd": "0.0004",
            "per": "thousand_requests", "op": "read", "effective_ms": BEGIN_MS,
        },
    )  # fmt: skip
    free = {**reads[2], "id": "bytes", "sku": "bytes", "usd": "0", "per": "gb"}
    return sorted([reads, (BEGIN_MS, "prices", free), *prices, *events], key=lambda event: event[0])
