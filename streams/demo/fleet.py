"""Simulates the demo fleet: given an instant of event time, it returns the records up to it.

The same seed and start give the same bytes, however the time is divided into steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.demo.catalog import GPUS_PER_NODE, LATE_PRICE, POOLS, PRICES, RULES, TEAMS
from streams.demo.exporters import report_samples, report_traffic
from streams.demo.job import DemoJob, State
from streams.demo.job_specs import JobSpec
from streams.demo.nodes import Held, PoolNodes
from streams.demo.records import DemoRecord, Writer
from streams.demo.story import Scene, Verb, scenes

#: The history in the log when the demo starts.
HISTORY_MS: Final = 10 * HOUR_MS
SAMPLE_MS: Final = 10_000
_SAMPLES_FROM_MS: Final = 30 * MINUTE_MS  # before the start; coarser there
_FINE_TRAFFIC_FROM_MS: Final = 10 * MINUTE_MS
_NODE_AWAY_MS: Final = 3 * MINUTE_MS
_NEW_SPOT_NODE_MS: Final = 100_000
_NODE_STARTS_MS: Final = 150_000
_RETRY_MS: Final = 5_000

Timer = Callable[[int], None]


class Fleet:
    """`advance` only moves forward; the first call includes the history."""

    def __init__(self, start_ms: int, seed: int = 1, addresses: Mapping[str, str] | None = None) -> None:
        self.start_ms = start_ms
        self._seed = seed
        self._out = Writer()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_count = 0
        self._scenes = scenes(seed)
        self._scene = next(self._scenes)
        self._pools = {name: PoolNodes(pool) for name, pool in POOLS.items()}
        self._jobs: dict[str, DemoJob] = {}  # jobs that have not ended
        self._queues: dict[str, list[DemoJob]] = {name: [] for name in POOLS}
        self._open(addresses or {})

    def advance(self, to_ms: int) -> list[DemoRecord]:
        """The records of everything up to an instant, in order of time."""
        while True:
            scene_ms = self.start_ms + self._scene.at_ms
            timer_ms = self._timers[0][0] if self._timers else scene_ms + 1
            if min(scene_ms, timer_ms) > to_ms:
                return self._out.drain()
            if timer_ms <= scene_ms:
                time_ms, _, timer = heapq.heappop(self._timers)
                timer(time_ms)
            else:
                scene, self._scene = self._scene, next(self._scenes)
                self._play(scene_ms, scene)

    # -- the stage -----------------------------------------------------------------------------------------

    def _open(self, addresses: Mapping[str, str]) -> None:
        begin_ms = self.start_ms - HISTORY_MS
        for price in PRICES:
            self._out.price(begin_ms, {**price, "effective_ms": begin_ms})
        for rule in RULES:
            self._out.rule(begin_ms, rule)
        for owner, url in addresses.items():
            self._out.control(begin_ms, "owner", owner, webhook=url)
        for name, pool in POOLS.items():
            for _ in range(pool.nodes):
                self._add_node(begin_ms, name)
        self._at(self.start_ms - _SAMPLES_FROM_MS, self._sample)
        self._at(begin_ms + 10 * MINUTE_MS, self._traffic)

    def _at(self, time_ms: int, timer: Timer) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (time_ms, self._timer_count, timer))

    def _in_life(self, job: DemoJob, time_ms: int, timer: Timer) -> None:
        """Set a timer that has no effect once the attempt has ended."""
        life = job.life

        def ring(now_ms: int) -> None:
            if job.life == life:
                timer(now_ms)

        self._at(time_ms, ring)

    def _add_node(self, time_ms: int, pool: str) -> str:
        nodes = self._pools[pool]
        name = nodes.add()
        fields = {**nodes.pool.price_fields, "gpu_count": GPUS_PER_NODE}
        self._out.node(time_ms, name, "provisioned", fields)
        self._at(time_ms + _NODE_STARTS_MS, lambda now_ms: self._out.node(now_ms, name, "ready", {}))
        return name

    def _remove_node(self, time_ms: int, pool: str, name: str, in_ms: int) -> None:
        self._pools[pool].remove(name)
        self._out.node(time_ms, name, "draining", {})
        self._at(time_ms + in_ms, lambda now_ms: self._out.node(now_ms, name, "terminated", {}))

    # -- the scenes ----------------------------------------------------------------------------------------

    def _play(self, time_ms: int, scene: Scene) -> None:
        if scene.spec is not None:
            self._submit(time_ms, scene.spec)
        elif scene.verb is Verb.add_node:
            self._add_node(time_ms, scene.pool)
        elif scene.verb is Verb.late_price:
            self._out.price(time_ms, {**LATE_PRICE, "effective_ms": self.start_ms - HISTORY_MS})
        else:
            job = self._jobs.get(scene.job_id)
            if job is not None and job.state is State.running:
                self._happens(time_ms, job, scene)

    def _happens(self, time_ms: int, job: DemoJob, scene: Scene) -> None:
        if scene.verb is Verb.scale:
            self._scale_out(time_ms, job, scene)
        elif scene.verb is Verb.scale_back:
            self._scale_back(time_ms, job)
        elif scene.verb is Verb.reclaim:
            self._reclaim(time_ms, job)
        else:
            self._end(time_ms, job, "failed", "out_of_memory")
            self._retry(time_ms, job)

    def _submit(self, time_ms: int, spec: JobSpec) -> None:
        job = self._jobs[spec.job_id] = DemoJob(spec, self._seed)
        about = {"owner": spec.owner, "team": TEAMS[spec.owner], "project": spec.project}
        about |= {"experiment": spec.experiment} if spec.experiment else {}
        if spec.metered:
            self._out.job(time_ms, spec.job_id, 1, "updated", **about)
        else:
            self._out.job(time_ms, spec.job_id, 1, "queued", gpu_count=spec.gpus, **about)
        self._queues[spec.pool].append(job)
        self._serve_queue(time_ms, spec.pool)

    def _scale_out(self, time_ms: int, job: DemoJob, scene: Scene) -> None:
        more = int(job.gpus * (scene.factor - 1)) // GPUS_PER_NODE
        pool = self._pools[job.spec.pool]
        for _ in range(more):
            node = self._add_node(time_ms, job.spec.pool)
            job.extra.append(node)
            job.held[node] = pool.reserve(node)
        job.too_wide = scene.expected_usd_per_hour is None
        self._scaled(time_ms, job, scene.expected_usd_per_hour)

    def _scale_back(self, time_ms: int, job: DemoJob) -> None:
        self._release_extra(time_ms, job)
        job.too_wide = False
        self._scaled(time_ms, job, None)

    def _scaled(self, time_ms: int, job: DemoJob, expected_usd_per_hour: str | None) -> None:
        self._out.job(
            time_ms,
            job.spec.job_id,
            job.attempt,
            "scaled",
            gpu_count=job.gpus,
            nodes=job.nodes,
            expected_usd_per_hour=expected_usd_per_hour,
        )

    def _release_extra(self, time_ms: int, job: DemoJob) -> None:
        for node in job.extra:
            job.held.pop(node, None)
            self._remove_node(time_ms, job.spec.pool, node, _NODE_AWAY_MS)
        job.extra.clear()

    def _reclaim(self, time_ms: int, job: DemoJob) -> None:
        nodes = list(job.held)
        self._end(time_ms, job, "preempted", "spot_reclaim", keep_nodes=False)
        for node in nodes:
            self._remove_node(time_ms, job.spec.pool, node, 0)
            self._at(time_ms + _NEW_SPOT_NODE_MS, lambda now_ms: self._new_spot_node(now_ms, job.spec.pool))
        self._retry(time_ms, job)

    def _new_spot_node(self, time_ms: int, pool: str) -> None:
        self._add_node(time_ms, pool)
        self._serve_queue(time_ms, pool)

    # -- a job's life --------------------------------------------------------------------------------------

    def _serve_queue(self, time_ms: int, pool: str) -> None:
        waiting = []
        for job in self._queues[pool]:
            held = self._pools[pool].place(job.spec.gpus)
            if held is None:
                waiting.append(job)
            else:
                self._allocate(time_ms, job, held)
        self._queues[pool] = waiting

    def _allocate(self, time_ms: int, job: DemoJob, held: Held) -> None:
        job.held, job.state = held, State.starting
        job.held_from_ms = time_ms
        if job.spec.metered:
            job.state = State.running
            return
        fields = self._pools[job.spec.pool].pool.price_fields
        self._out.job(
            time_ms, job.spec.job_id, job.attempt, "allocated", gpu_count=job.gpus, nodes=job.nodes, **fields
        )
        self._in_life(
            job, time_ms + job.rng.randrange(25_000, 75_000), lambda now_ms: self._start(now_ms, job)
        )

    def _start(self, time_ms: int, job: DemoJob) -> None:
        spec, job.state = job.spec, State.running
        expected = spec.expected_usd_per_hour if job.attempt == 1 else None
        self._out.job(time_ms, spec.job_id, job.attempt, "started", expected_usd_per_hour=expected)
        if spec.runs_ms is not None:
            self._in_life(
                job, time_ms + spec.runs_ms, lambda now_ms: self._end(now_ms, job, spec.outcome, spec.reason)
            )
        self._checkpoint_later(time_ms, job)

    def _checkpoint_later(self, time_ms: int, job: DemoJob) -> None:
        if job.spec.checkpoint_ms is not None:
            due_ms = time_ms + job.about(job.spec.checkpoint_ms)
            self._in_life(job, due_ms, lambda now_ms: self._checkpoint(now_ms, job))

    def _checkpoint(self, time_ms: int, job: DemoJob) -> None:
        # Larger jobs write longer. Of the clock and not of `job.rng`, on whose draws the story of the fleet rests.
        took_ms = 2_000 + 500 * job.gpus + time_ms // 1_000 % 40 * 100
        self._out.job(time_ms, job.spec.job_id, job.attempt, "checkpointed", duration_ms=took_ms)
        self._checkpoint_later(time_ms, job)

    def _end(
        self, time_ms: int, job: DemoJob, kind: str, reason: str | None, *, keep_nodes: bool = True
    ) -> None:
        quality = {"val_loss": round(job.rng.uniform(1.4, 2.6), 4)} if kind == "completed" else None
        self._out.job(time_ms, job.spec.job_id, job.attempt, kind, reason=reason, quality=quality)
        self._release_extra(time_ms, job)
        held = job.ended()
        del self._jobs[job.spec.job_id]
        if keep_nodes:
            self._pools[job.spec.pool].release(held)
            self._serve_queue(time_ms, job.spec.pool)

    def _retry(self, time_ms: int, job: DemoJob) -> None:
        def again(now_ms: int) -> None:
            job.attempt += 1
            job.state = State.queued
            self._jobs[job.spec.job_id] = job
            self._out.job(now_ms, job.spec.job_id, job.attempt, "queued")
            self._queues[job.spec.pool].append(job)
            self._serve_queue(now_ms, job.spec.pool)

        self._at(time_ms + _RETRY_MS, again)

    # -- what meters report --------------------------------------------------------------------------------

    def _sample(self, time_ms: int) -> None:
        live = time_ms >= self.start_ms
        report_samples(
            self._out,
            time_ms,
            SAMPLE_MS if time_ms > self.start_ms else MINUTE_MS,
            self._jobs.values(),
            self._pools,
        )
        self._at(time_ms + (SAMPLE_MS if live else MINUTE_MS), self._sample)

    def _traffic(self, time_ms: int) -> None:
        fine_ms = self.start_ms - _FINE_TRAFFIC_FROM_MS
        report_traffic(
            self._out,
            time_ms,
            MINUTE_MS if time_ms > fine_ms else 10 * MINUTE_MS,
            self._jobs.values(),
            self._pools,
        )
        self._at(time_ms + (MINUTE_MS if time_ms >= fine_ms else 10 * MINUTE_MS), self._traffic)
