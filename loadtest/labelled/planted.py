"""Faults planted at random instants into jobs of random kinds and sizes, which run among a fleet of ordinary work.

Of each fault it is known when it begins, when the rule that is there for it has waited as long as it says it does, and what a
message about it must name. The same seed gives the same lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from loadtest.labelled import market
from loadtest.labelled.job import letters_of
from loadtest.labelled.ordinary import BEGIN_MS, Event
from loadtest.labelled.planted_job import NODE_GPUS, NOTHING, SPIN, WORK, PlantedJob, Use
from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS

#: Within so long after the rule's own wait somebody is told: work that stands still, and what cannot be, sooner than waste.
SOON_MS: Final = 15 * MINUTE_MS
LATER_MS: Final = 45 * MINUTE_MS
_SIZES: Final = (1, 2, 4, 8, 8, 16, 16, 32, 64, 128, 256)
#: More nodes that come up at one time would be a burst of them.
_FEW_NODES: Final = (1, 2, 4, 8, 8, 16, 32, 64)
_NAMES: Final = ("pretrain", "finetune", "eval", "reward", "distill", "vision", "speech", "embed")
#: A price that no list has.
_UNPRICED_TYPE: Final = "MI300X"


class Planted(NamedTuple):
    """A fault: what it is about, and what is to be told of it."""

    kind: str
    subjects: frozenset[str]  # names of jobs, nodes and SKUs: whatever is told of them is told of the fault
    from_ms: int
    due_ms: int  # the rule has waited as long as it says
    within_ms: int  # of that
    until_ms: int
    rules: frozenset[str]  # one of them tells it
    names: tuple[str, ...]  # one of them is in the sentence
    events: tuple[Event, ...]


@dataclass
class _Plot:
    """One fault in the making: its number, a generator of its own, and when it may begin."""

    kind: str
    rng: random.Random
    word: str
    at_ms: int
    jobs: list[PlantedJob] = field(default_factory=list)

    def job(self, sizes: tuple[int, ...] = _SIZES, least_usd: float = 1.2, **about: Any) -> PlantedJob:
        """A job that costs so much per hour, or of which nobody knows."""
        while True:
            name = f"{self.rng.choice(_NAMES)}-{self.word}{'-b' * len(self.jobs)}"
            job = PlantedJob(random.Random(self.rng.random()), name, self.rng.choice(sizes), **about)
            if job.usd_per_hour >= least_usd or "gpu_type" in about:
                self.jobs.append(job)
                return job

    def job_on_new_nodes(self) -> PlantedJob:
        """A job that names its nodes, which come up before it begins."""
        job = self.job(_FEW_NODES, **_unpriced_or_not(self))
        job.names_nodes = True
        for name, gpus in job.held().items():
            job.node(name, "provisioned", self.at_ms - self.lasts_ms(0.1, 1), gpus)
        return job

    def lasts_ms(self, least_minutes: float, most_minutes: float) -> int:
        """A random time."""
        return int(self.rng.uniform(least_minutes, most_minutes) * MINUTE_MS)

    def planted(
        self,
        from_ms: int,
        due_ms: int,
        until_ms: int,
        *rules: str,
        within_ms: int = SOON_MS,
        names: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
    ) -> Planted:
        """What is true of it."""
        jobs = [job.job_id for job in self.jobs]
        subjects = frozenset((*jobs, *(node for job in self.jobs for node in job.nodes), *others))
        events = tuple(event for job in self.jobs for event in job.events)
        return Planted(
            self.kind, subjects, from_ms, due_ms, within_ms, until_ms, frozenset(rules), names or tuple(jobs), events
        )  # fmt: skip

    def ends(self, job: PlantedJob, until_ms: int) -> None:
        """The fault is over: the job is cancelled, or works again for an hour or two."""
        if self.rng.random() < 0.5:
            job.tell("cancelled", until_ms)
        else:
            job.tell("completed", until_ms + self.lasts_ms(60, 120))


def _until_usd_ms(job: PlantedJob, usd: float, share: float = 1.0) -> int:
    """How long it takes to pay so much; on spot at a time of day at which it is cheap."""
    low = 1 - market.DIURNAL_SHARE if job.of["purchase"] == "spot" else 1.0
    return int(usd / (job.usd_per_hour * share * low) * HOUR_MS)


def _end_of(job: PlantedJob) -> int:
    """When its end is told."""
    return int(job.events[-1][2]["time_ms"])


def _told(plot: _Plot, job: PlantedJob, begin_ms: int, until_ms: int) -> None:
    """Tell the end of a fault, then what is heard of the attempt in which it is."""
    plot.ends(job, until_ms)
    job.run(begin_ms, _end_of(job))


def _stalled(plot: _Plot) -> Planted:
    """Progress stands still: by samples the GPUs do nothing, wait for each other, or work as ever."""
    job = plot.job()
    job.reports = True
    if job.of["purchase"] == "spot":
        job.saves_ms = job.saves_ms or HOUR_MS  # one that never saved would be another fault
    begin_ms = job.earlier(plot.at_ms)
    # The report before the first one that says the same as another.
    from_ms = begin_ms + plot.lasts_ms(35, 180) // job.beat_ms * job.beat_ms
    due_ms = from_ms + max(15 * MINUTE_MS, _until_usd_ms(job, 20))
    until_ms = due_ms + plot.lasts_ms(60, 180)
    use = plot.rng.choice((NOTHING, SPIN, WORK))
    job.use = lambda at_ms, _node: use if from_ms < at_ms <= until_ms else WORK
    job.moves = lambda at_ms: not from_ms < at_ms <= until_ms
    _told(plot, job, begin_ms, until_ms)
    return plot.planted(from_ms, due_ms, until_ms, "stalled", "idle_gpus", "spinning")


def _slow_progress(plot: _Plot) -> Planted:
    """Progress goes on at a third of its speed or less; the GPUs seem to work as ever."""
    job = plot.job(least_usd=1.8)  # two thirds of which are wasted: below $1/h it is for the digest
    job.reports = True
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms + plot.lasts_ms(100, 240) // job.beat_ms * job.beat_ms
    times = plot.rng.choice((3, 4))
    # Laps are ten minutes and more; the one in which it begins is not slow.
    due_ms = from_ms + max(60 * MINUTE_MS, _until_usd_ms(job, 10, 1 - 1 / times) + 20 * MINUTE_MS)
    until_ms = due_ms + plot.lasts_ms(60, 180)
    job.times = lambda at_ms: times if from_ms < at_ms <= until_ms else 1
    _told(plot, job, begin_ms, until_ms)
    return plot.planted(from_ms, due_ms, until_ms, "slow_progress", within_ms=LATER_MS)


def _spinning(plot: _Plot) -> Planted:
    """All ranks wait for one that never comes, busy by their utilisation."""
    job = plot.job()
    job.sampled, job.sample_ms = True, MINUTE_MS
    job.measures = plot.rng.choice((("sm",), ("power",), ("sm", "tensor", "power"), ("tensor", "power")))
    job.reports = plot.rng.random() < 0.3
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms + plot.lasts_ms(25, 240) // MINUTE_MS * MINUTE_MS
    wait_ms = 30 * MINUTE_MS if job.reports else 12 * MINUTE_MS
    until_ms = from_ms + wait_ms + plot.lasts_ms(45, 180)
    job.use = lambda at_ms, _node: SPIN if from_ms < at_ms <= until_ms else WORK
    job.moves = lambda at_ms: not from_ms < at_ms <= until_ms
    _told(plot, job, begin_ms, until_ms)
    return plot.planted(from_ms, from_ms + wait_ms, until_ms, "spinning", "stalled")


def _straggler(plot: _Plot) -> Planted:
    """One or two nodes do a fraction of what the others do, from some instant or from the start on."""
    job = plot.job((16, 16, 24, 32, 64, 128, 256))
    job.sampled = True
    nodes = len(job.nodes)
    slow = set(plot.rng.sample(range(nodes), 2 if nodes >= 16 and plot.rng.random() < 0.4 else 1))
    # Of two or three nodes that never worked alike nobody knows which has which part.
    from_start = nodes >= 4 and plot.rng.random() < 0.25
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms if from_start else begin_ms + plot.lasts_ms(30, 240)
    is_sure = nodes >= 4 and not from_start
    due_ms = from_ms + (30 if is_sure else 60) * MINUTE_MS
    until_ms = due_ms + plot.lasts_ms(60, 180)
    util = plot.rng.uniform(0.05, 0.4)
    low = Use(util, 0.5 * util, 0.3 * util, 200)

    def use(at_ms: int, node: int) -> Use:
        return low if node in slow and from_ms < at_ms <= until_ms else WORK

    job.use = use
    _told(plot, job, begin_ms, until_ms)
    names = tuple(job.nodes[node] for node in sorted(slow))
    return plot.planted(from_ms, due_ms, until_ms, "straggler", within_ms=LATER_MS, names=names)


def _inefficient(plot: _Plot) -> Planted:
    """Busy GPUs of which the multiprocessors, or only the tensor cores, do next to nothing."""
    job = plot.job(gpu_type="H100", purchase="on_demand")
    job.sampled = True
    job.measures = plot.rng.choice(
        (("sm",), ("sm", "tensor"), ("sm", "tensor", "power"), ("tensor", "power"))
    )
    sm = plot.rng.uniform(0.02, 0.07)
    if job.measures == ("sm", "tensor") and plot.rng.random() < 0.3:
        sm = plot.rng.uniform(0.2, 0.5)  # in single precision, without tensor cores
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms if plot.rng.random() < 0.6 else begin_ms + plot.lasts_ms(30, 180)
    due_ms = from_ms + 2 * HOUR_MS
    until_ms = due_ms + plot.lasts_ms(60, 240)
    low = Use(plot.rng.uniform(0.85, 0.99), sm, 0.004, 330)
    job.use = lambda at_ms, _node: low if from_ms < at_ms <= until_ms else WORK
    _told(plot, job, begin_ms, until_ms)
    return plot.planted(from_ms, due_ms, until_ms, "inefficient", "spinning", within_ms=LATER_MS)


def _no_checkpoint(plot: _Plot) -> Planted:
    """A job that saved its work no longer does, or one on spot never did."""
    job = plot.job((8, 16, 32, 64, 128, 256), least_usd=7)
    is_spot = job.of["purchase"] == "spot"
    saves_ms = job.saves_ms = 0 if is_spot and plot.rng.random() < 0.5 else 60 * MINUTE_MS
    job.sample_ms = 5 * MINUTE_MS
    begin_ms = job.earlier(plot.at_ms)
    saved_ms = begin_ms + plot.rng.randrange(1, 4) * saves_ms
    due_ms = saved_ms + max(6 * HOUR_MS, _until_usd_ms(job, 100))
    until_ms = due_ms + plot.lasts_ms(60, 180)
    if saves_ms:
        job.checkpoints(begin_ms, saved_ms + 1, saves_ms)
        job.saves_ms = 0
    _told(plot, job, begin_ms, until_ms)
    return plot.planted(saved_ms, due_ms, until_ms, "no_checkpoint", within_ms=LATER_MS)


def _held(plot: _Plot) -> Planted:
    """Somebody suspends a job, which keeps its GPUs."""
    job = plot.job()
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms + plot.lasts_ms(2, 240)
    job.run(begin_ms, from_ms)
    job.tell("suspended", from_ms, holds_gpus=True)
    due_ms = from_ms + 30 * MINUTE_MS
    until_ms = due_ms + plot.lasts_ms(60, 400)
    if job.sampled and plot.rng.random() < 0.5:  # an exporter of the node goes on
        job.use = lambda _at_ms, _node: NOTHING
        reports, job.reports, job.saves_ms = job.reports, False, 0
        job.run(from_ms, until_ms)
        job.use, job.reports = (lambda _at_ms, _node: WORK), reports
    if plot.rng.random() < 0.6:
        job.tell("resumed", until_ms)
        end_ms = until_ms + plot.lasts_ms(30, 90)
        job.run(until_ms, end_ms)
        job.tell("completed", end_ms)
    else:
        job.tell("cancelled", until_ms)
    return plot.planted(from_ms, due_ms, until_ms, "held", "idle_gpus", within_ms=LATER_MS)


def _idle_gpus(plot: _Plot) -> Planted:
    """Nothing is done on the GPUs, or on all but one of eight."""
    labels: dict[str, Any] = {"labels": {"interactive": "true"}} if plot.rng.random() < 0.2 else {}
    job = plot.job(least_usd=1.5, **labels)
    job.sampled, job.reports = True, False
    is_partial = job.gpus >= NODE_GPUS and plot.rng.random() < 0.25
    share = 0.1 if is_partial else plot.rng.choice((0.0, 0.0, 0.03))
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms if plot.rng.random() < 0.4 else begin_ms + plot.lasts_ms(10, 240)
    wait_ms = (120 if labels else 50) * MINUTE_MS
    due_ms = from_ms + max(wait_ms, _until_usd_ms(job, 5, 1 - share))
    until_ms = due_ms + plot.lasts_ms(70, 240)
    low = Use(share, share / 2, share / 4, 110)
    job.use = lambda at_ms, _node: low if from_ms < at_ms <= until_ms else WORK
    _told(plot, job, begin_ms, until_ms)
    return plot.planted(from_ms, due_ms, until_ms, "idle_gpus", within_ms=LATER_MS)


def _unpriced_or_not(plot: _Plot) -> dict[str, Any]:
    """One in ten is of GPUs that no list of prices has."""
    return {"gpu_type": _UNPRICED_TYPE, "purchase": "on_demand"} if plot.rng.random() < 0.1 else {}


def _double_held(plot: _Plot) -> Planted:
    """The end of a job is lost; its nodes go to another job."""
    lost = plot.job_on_new_nodes()
    begin_ms = lost.earlier(plot.at_ms)
    ended_ms = begin_ms + plot.lasts_ms(30, 300)
    lost.run(begin_ms, ended_ms)
    nodes = lost.nodes
    same = {"gpu_type": lost.of["gpu_type"], "purchase": lost.of["purchase"]}
    other = plot.job((lost.gpus,), **same)
    other.names_nodes, other.sampled = True, lost.sampled
    other.node_word = lost.node_word
    from_ms = ended_ms + plot.lasts_ms(1, 20)
    until_ms = from_ms + plot.lasts_ms(70, 240)
    other.begin(from_ms)
    other.run(from_ms, until_ms)
    other.tell("completed", until_ms)
    notified_ms = until_ms + plot.lasts_ms(-20, 60)  # somebody cancels it
    lost.tell("cancelled", notified_ms)
    for name, gpus in lost.held().items():
        lost.node(name, "terminated", max(until_ms, notified_ms) + 30_000, gpus)
    names = (lost.job_id, other.job_id, *nodes)
    due_ms = from_ms + 8 * MINUTE_MS
    if lost.sampled or lost.reports:  # it is missed as soon as it is not heard of
        from_ms = ended_ms
    return plot.planted(from_ms, due_ms, until_ms, "double_held", "silent_job", names=names)


def _after_node(plot: _Plot) -> Planted:
    """The nodes of a job are gone, and nobody said that it ended."""
    job = plot.job_on_new_nodes()
    begin_ms = job.earlier(plot.at_ms)
    from_ms = begin_ms + plot.lasts_ms(20, 300)
    until_ms = from_ms + plot.lasts_ms(60, 300)
    for name, gpus in job.held().items():
        job.node(name, "terminated", from_ms + plot.rng.randrange(60_000), gpus)
    job.run(begin_ms, from_ms)
    job.tell("failed", until_ms, reason="node_failure")
    return plot.planted(from_ms, from_ms + 8 * MINUTE_MS, until_ms, "after_node", "silent_job")


def _metered_twice(plot: _Plot) -> Planted:
    """Two collectors report one job by two names."""
    job = plot.job(**_unpriced_or_not(plot))
    same = {key: job.of[key] for key in ("gpu_type", "purchase", "team")}
    twin = plot.job((job.gpus,), **same)
    twin.node_word = job.node_word
    twin.source, job.source = plot.rng.sample(("slurm/main", "kubernetes/a", "sdk/train"), 2)
    twin.sampled = twin.reports = False
    begin_ms = plot.at_ms
    until_ms = begin_ms + plot.lasts_ms(60, 300)
    for each, late_ms in ((job, 0), (twin, plot.lasts_ms(0.05, 3))):
        each.names_nodes = True
        each.begin(begin_ms + late_ms)
        each.run(begin_ms + late_ms, until_ms)
        each.tell("completed", until_ms + late_ms // 3)
    return plot.planted(begin_ms, begin_ms + 8 * MINUTE_MS, until_ms, "metered_twice")


def _ceiling(plot: _Plot) -> Planted:
    """Far more GPUs than anybody meant, from the start on or by a change of the size."""
    gpus = plot.rng.choice((256, 256, 320, 512))
    purchase = "spot" if gpus == 512 and plot.rng.random() < 0.3 else "on_demand"
    job = plot.job((gpus,), gpu_type="H100", purchase=purchase)
    job.declares = False
    job.sample_ms = 5 * MINUTE_MS
    if plot.rng.random() < 0.7:
        from_ms = begin_ms = plot.at_ms
        job.begin(begin_ms)
    else:
        job.gpus = plot.rng.choice((8, 16, 32))
        begin_ms = job.earlier(plot.at_ms)
        from_ms = begin_ms + plot.lasts_ms(40, 200)
        job.run(begin_ms, from_ms)
        job.gpus = gpus
        job.tell("scaled", from_ms, gpu_count=gpus)
    until_ms = from_ms + plot.lasts_ms(30, 120)
    job.run(from_ms, until_ms)
    job.tell("cancelled", until_ms)
    return plot.planted(from_ms, from_ms, until_ms, "ceiling", "burn_fast")


def _price_jump(plot: _Plot) -> Planted:
    """A revision that is wrong by a factor, of a price that some jobs pay; in half of the cases it is put right."""
    rng = plot.rng
    region, usd = f"region-{plot.word}", rng.choice((1.1, 2.3, 4.1))
    sku = f"h100-{region}"
    for _ in range(rng.choice((0, 1, 2, 3, 5, 12))):
        job = plot.job((1, 2, 4, 8, 8, 16, 32), gpu_type="H100", purchase="on_demand", region=region)
        job.job_id = f"{rng.choice(_NAMES)}-{plot.word}-{''.join(rng.choices('abcdefghijk', k=5))}"
    from_ms = plot.at_ms + plot.lasts_ms(180, 400)
    for job in plot.jobs:
        job.declares = False
        begin_ms = job.earlier(plot.at_ms + plot.lasts_ms(0, 60))
        until_ms = from_ms + plot.lasts_ms(70, 240)
        job.run(begin_ms, until_ms)
        job.tell("completed", until_ms)
    factor = rng.choice((4, 10, 10, 100, 0.1, 0.01))
    events: list[Event] = []

    def price(known_ms: int, effective_ms: int, of: float) -> None:
        events.append((known_ms, "prices", {
            "source": "finance", "id": f"{sku}-{known_ms}", "time_ms": known_ms, "sku": sku, "component": "gpu",
            "usd": f"{of:.4f}", "per": "gpu_hour", "effective_ms": effective_ms, "gpu_type": "H100", "region": region,
            "purchase": "on_demand",
        }))  # fmt: skip

    price(plot.at_ms - HOUR_MS, BEGIN_MS - DAY_MS, usd)
    price(from_ms - rng.choice((0, 0, HOUR_MS)), from_ms, usd * factor)
    if rng.random() < 0.5:
        price(from_ms + HOUR_MS, from_ms, usd)
    found = plot.planted(
        from_ms, from_ms, from_ms + HOUR_MS, "price_jump", within_ms=SOON_MS, names=(sku,), others=(sku,)
    )
    return found._replace(events=(*found.events, *events))


def _clock_ahead(plot: _Plot) -> Planted:
    """The clock of a collector runs ahead: of GPUs, and half of the time of what jobs report, it tells as of later."""
    rng, source = plot.rng, f"agent/{plot.word}"
    ahead_ms = int(10 * MINUTE_MS * 120 ** rng.random())
    topics = rng.choice((("gpu",), ("gpu", "jobs")))
    from_ms = plot.at_ms + plot.lasts_ms(120, 300)
    until_ms = from_ms + plot.lasts_ms(60, 300)
    for _ in range(rng.choice((1, 1, 2, 4))):
        job = plot.job((1, 2, 4, 8, 8, 16, 32, 64))
        job.sampled = True
        _told(plot, job, job.earlier(plot.at_ms), until_ms)
        nodes = job.nodes if rng.random() < 0.5 else rng.sample(job.nodes, -(-len(job.nodes) // 2))
        for _, topic, value in job.events:
            # Who starts and ends jobs is another host.
            if topic not in topics or value.get("type", "") not in ("", "heartbeat", "checkpointed"):
                continue
            if value.get("node", nodes[0]) in nodes:
                value["source"] = source
                value["time_ms"] += ahead_ms if from_ms < value["time_ms"] <= until_ms else 0
    due_ms = from_ms + 3 * min(job.sample_ms for job in plot.jobs) + 5 * MINUTE_MS
    return plot.planted(from_ms, due_ms, until_ms, "clock_ahead", names=(source,), others=(source,))


#: Kind -> how it is made; each kind is the rule that is there for it.
FAULTS: Final[dict[str, Callable[[_Plot], Planted]]] = {
    "stalled": _stalled,
    "slow_progress": _slow_progress,
    "spinning": _spinning,
    "straggler": _straggler,
    "inefficient": _inefficient,
    "no_checkpoint": _no_checkpoint,
    "held": _held,
    "idle_gpus": _idle_gpus,
    "double_held": _double_held,
    "after_node": _after_node,
    "metered_twice": _metered_twice,
    "ceiling": _ceiling,
    "price_jump": _price_jump,
    "clock_ahead": _clock_ahead,
}


def plant(seed: int, days: int, each: int) -> Iterator[Planted]:
    """Yield so many faults of each kind, of jobs that begin within the days."""
    number = 0
    for kind, make in FAULTS.items():
        for place in range(each):
            rng = random.Random(f"planted-{seed}-{kind}-{place}")
            at_ms = BEGIN_MS + 2 * HOUR_MS + rng.randrange(days * DAY_MS - 4 * HOUR_MS)
            yield make(_Plot(kind, rng, letters_of(number), at_ms))
            number += 1
