"""One job of the labelled fleet as a clean job behaves: noise, rescales, preemptions, samples and late traffic."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from loadtest.labelled import market
from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS

#: How much what a job costs per hour varies, one standard deviation.
NOISE_SHARE: Final = 0.08
_NOISE_EVERY_MS: Final = 30 * MINUTE_MS
_SAMPLE_MS: Final = 5 * MINUTE_MS
_HEARTBEAT_EVERY_MS: Final = 4 * MINUTE_MS
#: Twice what is best for these jobs: sqrt(2 x 1 min to write x 20 h between interrupts) is 49 min (Young 1974, Daly 2006).
_CHECKPOINT_EVERY_MS: Final = 90 * MINUTE_MS
#: Of spot jobs: Google names 5 to 15 % a day for a preemptible VM, so this is a job on some ten of them.
_PREEMPTIONS_PER_DAY: Final = 1.2
#: Of others, whose nodes fail: 419 interrupts in 54 days on 2,048 nodes (Llama 3, 2024) are 0.004 per node and day.
_FAILURES_PER_DAY: Final = 0.1
_STALLS_PER_DAY: Final = 3.0


@dataclass(frozen=True)
class JobSpec:
    """What a job is; times are ms since 1970 UTC."""

    job_id: str
    begin_ms: int
    end_ms: int
    gpus: int
    gpu_type: str
    region: str
    purchase: str
    declares: bool  # what it is expected to cost
    heard: str  # "samples", "heartbeats" or "" for neither
    rescales: int
    has_traffic: bool
    team: str = ""  # "": that of its region
    experiment: str = ""


def draw_spec(rng: random.Random, job_id: str, begin_ms: int, length_ms: int, **fixed: Any) -> JobSpec:
    """Draw what is not fixed."""
    drawn: dict[str, Any] = {
        "gpus": rng.choice((1, 2, 4, 8, 8, 8, 16, 32)),
        "gpu_type": rng.choice(tuple(market.ON_DEMAND_USD)),
        "region": rng.choice(market.REGIONS),
        "purchase": "spot" if rng.random() < 0.4 else "on_demand",
        "declares": rng.random() < 0.5,
        "heard": rng.choices(("samples", "heartbeats", ""), (15, 5, 80))[0],
        "rescales": rng.choice((1, 2, 3)) if rng.random() < 0.3 else 0,
        "has_traffic": rng.random() < 0.25,
    }
    return JobSpec(job_id, begin_ms, begin_ms + length_ms, **(drawn | fixed))


class LabelledJob:
    """Writes the events of one job: `run` goes through its time; `events` are (when it comes, topic, value)."""

    def __init__(self, spec: JobSpec, rng: random.Random) -> None:
        self.spec = spec
        self.rng = rng
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.attempt = 1
        self.purchase = spec.purchase
        self.factor = 1.0  # of what is expected
        self.busy: Callable[[], float] = self._usual_ratio
        self.interrupts = True  # whether it may be preempted
        self.running = False
        self._scale = 1.0  # declared
        self._noise = 0.0
        self._stalled_until_ms = 0
        self._due: list[tuple[int, int, Callable[[int], None]]] = []

    def at(self, at_ms: int, act: Callable[[int], None]) -> None:
        """Do something later; of equal instants what was asked for first."""
        heapq.heappush(self._due, (at_ms, len(self.events) * 1000 + len(self._due), act))

    def every(self, step_ms: int, act: Callable[[int], None], first_ms: int) -> None:
        """Do something again and again."""

        def again(at_ms: int) -> None:
            act(at_ms)
            self.at(at_ms + step_ms, again)

        self.at(first_ms, again)

    def say(self, topic: str, time_ms: int, late_ms: int | None = None, **value: Any) -> None:
        """Add an event; it comes some seconds late unless said otherwise."""
        if late_ms is None:
            late_ms = self.rng.randrange(8_000)
        said = {
            "source": "fleet",
            "id": f"{len(self.events)}",
            "time_ms": time_ms,
            "job_id": self.spec.job_id,
        }
        self.events.append((time_ms + late_ms, topic, said | value))

    def tell(self, kind: str, at_ms: int, **value: Any) -> None:
        """Add a lifecycle event of the present attempt."""
        self.say("jobs", at_ms, type=kind, attempt=self.attempt, **value)

    @property
    def usd_per_hour(self) -> float:
        """What it should cost per hour."""
        spec = self.spec
        return market.job_usd_per_hour(spec.gpus * self._scale, spec.gpu_type, spec.purchase)

    @property
    def counts(self) -> dict[str, float]:
        """GPUs and CPUs held now. The noise is in the CPUs, so much of it that the whole cost has `NOISE_SHARE`."""
        spec = self.spec
        gpus = max(round(spec.gpus * self._scale * self.factor, 3), 0.001)
        of_gpu = market.mean_usd(spec.gpu_type, spec.purchase)
        cpu_usd = market.VCPUS_PER_GPU * market.VCPU_USD
        more = self._noise * NOISE_SHARE * (of_gpu + cpu_usd) / cpu_usd
        return {"gpu_count": gpus, "cpu_count": round(gpus * market.VCPUS_PER_GPU * max(1 + more, 0.02), 3)}

    def run(self) -> None:
        """Go through the job's time."""
        spec, rng = self.spec, self.rng
        self._start(spec.begin_ms)
        per_day = _PREEMPTIONS_PER_DAY if spec.purchase == "spot" else _FAILURES_PER_DAY
        self.at(spec.begin_ms + self._wait_ms(per_day), self._interrupt)
        self.every(_NOISE_EVERY_MS, self._vary, spec.begin_ms + _NOISE_EVERY_MS)
        self.every(
            _CHECKPOINT_EVERY_MS, self._checkpoint, spec.begin_ms + rng.randrange(_CHECKPOINT_EVERY_MS)
        )
        if spec.heard == "samples":
            self.every(_SAMPLE_MS, self._sample, spec.begin_ms + _SAMPLE_MS)
        elif spec.heard == "heartbeats":
            self.every(_HEARTBEAT_EVERY_MS, self._beat, spec.begin_ms + _HEARTBEAT_EVERY_MS)
        if spec.has_traffic:
            self.every(HOUR_MS, self._lump, spec.begin_ms + HOUR_MS)
        for _ in range(spec.rescales):
            self.at(rng.randrange(spec.begin_ms, spec.end_ms), self._rescale)
        while self._due and self._due[0][0] < spec.end_ms:
            at_ms, _, act = heapq.heappop(self._due)
            act(at_ms)
        kind = rng.choices(("completed", "cancelled"), (9, 1))[0]
        self.tell(kind, max(spec.end_ms, self._last_ms + 1))

    def restart(self, at_ms: int, kind: str, reason: str, gap_ms: int) -> None:
        """End the attempt, and begin the next after a gap."""
        self.running = False
        self.tell(kind, at_ms, reason=reason)
        self.at(at_ms + gap_ms, self._restart)

    def scale_to(self, at_ms: int) -> None:
        """Say how much is held, without declaring it."""
        if self.running:
            self.tell("scaled", at_ms, **self.counts)

    @property
    def _last_ms(self) -> int:
        return max(int(value["time_ms"]) for _, topic, value in self.events[-20:] if topic == "jobs")

    def _start(self, at_ms: int) -> None:
        spec = self.spec
        expected = {"expected_usd_per_hour": f"{self.usd_per_hour:.6f}"} if spec.declares else {}
        about = {
            "owner": f"owner-{len(spec.job_id) % 7}", "team": spec.team or f"team-{spec.region[:2]}", "gpu_type": spec.gpu_type,
            "region": spec.region, "purchase": self.purchase,
        }  # fmt: skip
        if spec.experiment:
            about["experiment"] = spec.experiment
        self.tell("started", at_ms, **about, **self.counts, **expected)
        self.running = True

    def _restart(self, at_ms: int) -> None:
        self.attempt += 1
        self.tell("allocated", at_ms, purchase=self.purchase, **self.counts)
        start_ms = at_ms + self.rng.randrange(20_000, 2 * MINUTE_MS)

        def started(at_ms: int) -> None:
            self.tell("started", at_ms)
            self.running = True

        self.at(start_ms, started)

    def _wait_ms(self, per_day: float) -> int:
        return int(self.rng.expovariate(per_day) * DAY_MS)

    def _interrupt(self, at_ms: int) -> None:
        """Preempt a spot job; the node of another fails."""
        is_spot = self.spec.purchase == "spot"
        if self.running and self.interrupts:
            kind, reason = ("preempted", "spot_reclaim") if is_spot else ("failed", "node_failure")
            self.restart(at_ms, kind, reason, self.rng.randrange(MINUTE_MS, 8 * MINUTE_MS))
        # Never twice within an hour: that would be an incident.
        per_day = _PREEMPTIONS_PER_DAY if is_spot else _FAILURES_PER_DAY
        self.at(at_ms + HOUR_MS + self._wait_ms(per_day), self._interrupt)

    def _vary(self, at_ms: int) -> None:
        self._noise = max(min(self.rng.gauss(0, 1), 2.5), -2.5)
        self.scale_to(at_ms)

    def _rescale(self, at_ms: int) -> None:
        if self.running:
            self._scale = self.rng.choice((0.5, 2.0)) if self._scale == 1 else 1.0
            self.tell("scaled", at_ms, **self.counts, expected_usd_per_hour=f"{self.usd_per_hour:.6f}")

    def _checkpoint(self, at_ms: int) -> None:
        if self.running:
            self.tell("checkpointed", at_ms)

    def _beat(self, at_ms: int) -> None:
        if self.running:
            self.tell("heartbeat", at_ms)

    def _sample(self, at_ms: int) -> None:
        if not self.running:
            return
        gpus = max(int(self.counts["gpu_count"]), 1)
        if self.rng.random() < _STALLS_PER_DAY * _SAMPLE_MS / DAY_MS:
            self._stalled_until_ms = at_ms + 2 * _SAMPLE_MS  # an evaluation, or a wait for data
        ratio = 0.03 if at_ms < self._stalled_until_ms else self.busy()
        self.say(
            "gpu", at_ms, node=f"n-{self.spec.job_id}", attempt=self.attempt, interval_ms=_SAMPLE_MS,
            gpus=[str(each) for each in range(gpus)], util_ratio=[round(ratio, 3)] * gpus,
            gpu_type=self.spec.gpu_type, region=self.spec.region, purchase=self.purchase,
        )  # fmt: skip

    def _usual_ratio(self) -> float:
        return min(max(self.rng.gauss(0.75, 0.1), 0.4), 1.0)

    def _lump(self, at_ms: int) -> None:
        """Add an hour's traffic, which comes up to three hours late; one in ten is large."""
        share = self.rng.uniform(0.03, 0.2) if self.rng.random() < 0.9 else self.rng.uniform(0.3, 0.6)
        gb = share * self.usd_per_hour / market.INTERNET_USD_PER_GB
        self.say(
            "network", at_ms, self.rng.randrange(3 * HOUR_MS), attempt=self.attempt, interval_ms=HOUR_MS,
            path="internet", direction="egress", bytes=int(gb * 1e9),
        )  # fmt: skip


def letters_of(number: int) -> str:
    """Three letters for a name: one that differs in digits only is of the same kind of job."""
    letters = ""
    for _ in range(3):
        number, place = divmod(number, 26)
        letters = chr(ord("a") + place) + letters
    return letters
