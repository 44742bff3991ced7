"""What goes wrong in a run, drawn from its seed before it begins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    ATTEMPTS,
    DEAD_LETTERS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
    SNAPSHOTS,
    UNATTRIBUTED_MINUTES,
)  # fmt: skip
from tests.simulator.clocks import FAULTS as CLOCK_FAULTS
from tests.simulator.consumer import Fetching
from tests.simulator.script import Script
from tests.simulator.wire import Odds
from tests.simulator.worker import Pace
from tests.simulator.world import EPOCH_MS

#: Where a worker may die or freeze: before and after each request of a checkpoint.
POINTS = (
    JOB_MINUTES, JOB_HOURS, JOB_MINUTES, JOBS, ATTEMPTS, JOB_USAGE_MINUTES, UNATTRIBUTED_MINUTES, NODE_MINUTES, NODE_HOURS,
    DEAD_LETTERS, ALERTS, ARCHIVE,
    SNAPSHOTS, SNAPSHOTS, SNAPSHOTS, "commit",
)  # fmt: skip
KINDS = (
    "kill", "kill at", "kill at", "kill at", "freeze", "freeze at", "freeze at", "mute", "stop", "join",
    "lose snapshots",
)  # fmt: skip


@dataclass
class Fault:
    """One thing that goes wrong with one worker, or with the store."""

    kind: str
    at_ms: int  # of the world's time
    slot: int
    what: str = ""  # at which request
    when: str = "before"
    skip: int = 0  # so many of these requests go well first
    lasts_ms: int = 0  # frozen, muted, or away
    done: bool = False


@dataclass(frozen=True)
class Plan:
    """All of a run."""

    workers: int
    static: bool
    session_ms: int
    pace: Pace
    odds: Odds
    fetching: Fetching
    chunk_bytes: int
    skew_ms: tuple[int, ...]  # of each worker's clock
    read_every_ms: int
    faults: list[Fault] = field(default_factory=list)

    @property
    def clocks_agree(self) -> bool:
        """Whether alerts can be expected to be the same."""
        return max(map(abs, self.skew_ms)) <= 40


@dataclass(frozen=True)
class Allowed:
    """What a run may suffer; tests narrow it down."""

    kinds: tuple[str, ...] = KINDS
    points: tuple[str, ...] = POINTS
    counts: tuple[int, ...] = (0, 1, 2, 3, 5)  # how many of these happen
    repeated: bool = True  # records delivered again
    dropped: bool = True  # batches lost on the way
    from_committed: bool = False
    stale: bool = True
    pressure: bool = True  # reading pauses because too much waits
    late: float | None = None  # the share of requests that arrive long after; None: drawn
    clocks: bool = True  # whether clocks go wrong
    static: bool | None = None  # whether members are static; None: drawn
    starved: bool = True  # whether machines are loaded for a while


# Few faults, each a death with a request on its way: a later takeover would put right what it leaves behind.
LATE = Allowed(
    kinds=("kill sending at",), points=(JOB_MINUTES, NODE_MINUTES), counts=(2,), dropped=False, static=True,
    starved=False,
)  # fmt: skip


def draw_plan(rng: random.Random, script: Script, allowed: Allowed) -> Plan:
    """Draw what goes wrong while the script is written."""
    workers = rng.choice((1, 2, 2, 3))
    rough = rng.choice((0.0, 0.02, 0.06))
    odds = Odds(
        busy=rough, lost=rough, part=rough, late=rough / 2, stale=rng.choice((0, 0, 0.3)) if allowed.stale else 0,
        latest_ms=20_000,
    )  # fmt: skip
    odds.late = odds.late if allowed.late is None else allowed.late
    fetching = Fetching(
        every_ms=rng.choice((2_000, 6_000)),
        most=rng.choice((1, 3, 20)),
        dropped=rng.choice((0, 0, 0.05)) if allowed.dropped else 0,
        repeated=rng.choice((0, 0.02)) if allowed.repeated else 0,
        from_committed=allowed.from_committed,
    )
    pace = Pace(
        checkpoint_ms=rng.choice((4_000, 15_000, 40_000)),
        open_attempts_ms=rng.choice((40_000, 150_000)),
        tick_poll_ms=rng.choice((10_000, 30_000, 60_000)),
        flight_max_bytes=rng.choice((1, 64 * 2**20, 64 * 2**20)),
        max_backlog_bytes=rng.choice((4_000, 256 * 2**20)) if allowed.pressure else 256 * 2**20,
        bases_kept=rng.choice((1, 2)),
    )
    # Not drawn: a draw more would make other runs of all seeds.
    every = {10_000: 1, 30_000: 3, 60_000: 12}[pace.tick_poll_ms]
    pace = replace(pace, caught_up_bytes=3_000 if pace.bases_kept == 2 else None, snapshots_every=every)
    large = rng.random() < 0.2
    skew_ms = tuple(rng.randrange(-300_000, 300_000) if large else rng.randrange(-40, 41) for _ in range(3))
    plan = Plan(
        workers=workers,
        static=rng.random() < 0.3 if allowed.static is None else allowed.static,
        session_ms=10_000,
        pace=pace,
        odds=odds,
        fetching=fetching,
        chunk_bytes=rng.choice((1_500, 8 * 2**20)),
        skew_ms=skew_ms,
        read_every_ms=rng.choice((4_000, 20_000)),
    )
    span_ms = script.end_ms - EPOCH_MS
    faults = [_fault(rng, span_ms, workers, allowed) for _ in range(rng.choice(allowed.counts))]
    if script.gap is not None:
        faults += _nobody_runs(rng, script.gap, workers)
    # Last, so that all else of a seed is as it was without them.
    if allowed.clocks and rng.random() < 0.3:
        faults += [_clock_fault(rng, span_ms, workers) for _ in range(rng.choice((1, 1, 2, 3)))]
    if allowed.starved and rng.random() < 0.2:
        at_ms, lasts_ms = EPOCH_MS + rng.randrange(span_ms), rng.choice((20_000, 60_000))
        faults += [Fault("starve", at_ms, slot, lasts_ms=lasts_ms) for slot in range(workers)]
    return replace(plan, faults=faults)


def _fault(rng: random.Random, span_ms: int, workers: int, allowed: Allowed) -> Fault:
    kind = rng.choice(allowed.kinds)
    fault = Fault(kind, EPOCH_MS + rng.randrange(span_ms), rng.randrange(workers))
    if kind.endswith(" at"):
        fault.what, fault.when = rng.choice(allowed.points), rng.choice(("before", "after"))
        if "sending" in kind:
            fault.when = "before"
        fault.skip = rng.choice((0, 0, 1, 3))
    if kind.startswith("freeze"):
        fault.lasts_ms = rng.choice((3_000, 15_000, 40_000, 70_000))
    elif kind == "mute":
        fault.lasts_ms = rng.choice((5_000, 15_000, 40_000))
    else:
        fault.lasts_ms = rng.choice((100, 2_000, 15_000, 60_000))
    return fault


def _clock_fault(rng: random.Random, span_ms: int, workers: int) -> Fault:
    at_ms, lasts_ms = EPOCH_MS + rng.randrange(span_ms), rng.choice((20_000, 20_000, 120_000))
    return Fault(rng.choice(tuple(CLOCK_FAULTS)), at_ms, rng.randrange(workers), lasts_ms=lasts_ms)


def _nobody_runs(rng: random.Random, gap: tuple[int, int], workers: int) -> list[Fault]:
    """All workers are away while nothing is written for long."""
    return [
        Fault(
            rng.choice(("kill", "stop")),
            gap[0] + 1_000,
            slot,
            lasts_ms=gap[1] - gap[0] - rng.randrange(5_000),
        )
        for slot in range(workers)
    ]
