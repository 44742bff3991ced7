"""Lives of workers, one after another in each place, and what befalls them."""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.tables import SNAPSHOTS
from sinks.rows import Condition
from tests.simulator.clocks import WallClock
from tests.simulator.consumer import FakeConsumer
from tests.simulator.faults import Fault, Plan
from tests.simulator.group import Group
from tests.simulator.log import Log
from tests.simulator.mail import Mailbox
from tests.simulator.process import Process
from tests.simulator.reader import FakeReader
from tests.simulator.script import Script
from tests.simulator.store import Shelf
from tests.simulator.wire import Wire
from tests.simulator.worker import Worker
from tests.simulator.world import EPOCH_MS, US, World


@dataclass
class Slot:
    """A place for a worker: one life after another."""

    number: int
    worker: Worker | None = None
    lives: int = 0
    clock: WallClock = field(default_factory=WallClock)  # of its machine
    last: bool = False  # begun when all is calm


class Lives:
    """Starts workers, hurts and ends them."""

    world: World
    script: Script
    plan: Plan
    shelf: Shelf
    log: Log
    group: Group
    slots: list[Slot]
    triggers: list[Fault]
    buried: list[Worker]
    calm: bool
    final_ms: int | None
    last_tick_ms: int
    mailbox: Mailbox | None

    # -- lives ---------------------------------------------------------------------------------------------

    def _start(self, slot: Slot) -> None:
        if slot.worker is not None and not slot.worker.process.dead:
            return
        if slot.worker is not None:
            self.buried.append(slot.worker)
        slot.lives += 1
        world, plan = self.world, self.plan
        process = Process(world, f"w{slot.number}.{slot.lives}")  # type: ignore[abstract]  # as much as is asked for
        skew_ms = plan.skew_ms[slot.number % 3]
        member = f"w{slot.number}" if plan.static and not slot.last else process.name

        def point(what: str, when: str) -> None:
            self._at_point(slot, what, when)

        def clock_ms() -> int:
            return slot.clock.shows(world.now_ms) + skew_ms

        def as_of_ms(clock_ms: int) -> int:
            return clock_ms if self.final_ms is None else self.final_ms

        consumer = FakeConsumer(process, self.group, self.log, member, plan.fetching, point)
        slot.worker = Worker(
            process, self.group, consumer,
            FakeReader(process, self.log, plan.read_every_ms, self.script.settings.newest_allowed_ms),
            Wire(self.shelf, process, plan.odds, point, plan.chunk_bytes),
            self.script.settings, plan.pace, member, plan.static, clock_ms, as_of_ms, self.last_tick_ms,
            self.mailbox, lambda: plan.odds.lost,
        )  # fmt: skip
        world.note(process.name, "starts")
        slot.worker.start()

    def _end(self, slot: Slot, away_ms: int) -> None:
        """It is dead, or about to be; another life begins later."""
        self.world.after(away_ms, self._start_again, slot)

    def _start_again(self, slot: Slot) -> None:
        gap = self.script.gap
        if gap is not None and gap[0] <= self.world.now_ms < gap[1] - 5_000:
            self.world.at(
                (gap[1] - 5_000 - EPOCH_MS) * US, self._start_again, slot
            )  # nobody runs all that time
            return
        if slot.worker is not None and slot.worker.stopping and not slot.worker.process.dead:
            self.world.after(1_000, self._start_again, slot)
            return
        self._start(slot)

    # -- faults --------------------------------------------------------------------------------------------

    def _inject(self, fault: Fault) -> None:
        if self.calm:
            return
        slot = self.slots[fault.slot]
        if fault.kind.endswith(" at"):
            self.triggers.append(fault)
        elif fault.kind == "join":
            gap = self.script.gap
            if len(self.slots) < 3 and (gap is None or self.world.now_ms >= gap[1]):
                self.world.fault("one more worker")
                self.slots.append(Slot(len(self.slots)))
                self._start(self.slots[-1])
        elif fault.kind == "lose snapshots":
            self._lose_snapshots()
        else:
            self._hit(fault.kind, slot, fault.lasts_ms)

    def _hit(self, kind: str, slot: Slot, lasts_ms: int) -> None:
        worker = slot.worker
        if kind.startswith("clock"):
            self.world.fault("slot", slot.number, kind, "for", lasts_ms, "ms")
            slot.clock.begin(kind, self.world.now_ms)
            self.world.after(lasts_ms, slot.clock.mend)
        if kind == "starve":
            self.world.fault("slot", slot.number, kind, "for", lasts_ms, "ms")
            self._starve(slot, self.world.now_ms + lasts_ms)
            return
        if worker is None or worker.process.dead:
            return
        process, world = worker.process, self.world
        world.fault(process.name, kind, "for", lasts_ms, "ms")
        if kind in ("kill", "kill sending"):
            process.sends_last = kind == "kill sending"
            process.kill()
            self._end(slot, lasts_ms)
        elif kind == "freeze":
            process.freeze()
            world.after(lasts_ms, process.thaw)
        elif kind == "mute":
            worker.muted_until_us = world.now_us + lasts_ms * US
        elif kind == "stop" and not worker.stopping:
            worker.stop()
            self._end(slot, lasts_ms)

    def _starve(self, slot: Slot, until_ms: int) -> None:
        """Whatever lives there gets a core for moments only: its machine is loaded. Its heartbeats come late, mostly in time."""
        world, worker = self.world, slot.worker
        if self.calm or world.now_ms >= until_ms:
            return
        away_ms = world.rng.uniform(500, 5_000)
        if worker is not None:
            worker.process.freeze()
            world.after(away_ms, worker.process.thaw)
        world.after(away_ms + world.pause(1, 300), self._starve, slot, until_ms)

    def _at_point(self, slot: Slot, what: str, when: str) -> None:
        for fault in self.triggers:
            if (fault.slot, fault.what, fault.when) != (slot.number, what, when):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            self.triggers.remove(fault)
            self.world.fault("at", when, what, ":")
            self._hit(fault.kind.removesuffix(" at"), slot, fault.lasts_ms)
            return

    def _lose_snapshots(self) -> None:
        """A chunk of some of a shard's newest snapshots is gone for good."""
        rng = self.world.rng
        shard = rng.randrange(self.script.partitions)
        stored = self.shelf.select(SNAPSHOTS, [Condition("shard", "=", shard)], ("version", "chunk"))
        heads = list(zip(*stored.to_pydict().values(), strict=True))
        for version, chunk in heads[-rng.choice((1, 2, 30)) :]:
            self.world.fault("lost: shard", shard, "snapshot", version, "chunk", chunk)
            where = [("shard", shard), ("version", version), ("chunk", chunk)]
            self.shelf.delete(SNAPSHOTS, [Condition(name, "=", value) for name, value in where])
