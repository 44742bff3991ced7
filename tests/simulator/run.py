"""One run of one seed: workers over a log with faults, then calm, then the tables against the oracle.

A difference, a fault of a shard manager or a run that does not end is a failure of the seed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from dataclasses import dataclass, field
from functools import partial

from streams.worker.takeover import rehydrate
from tests.oracle.model import MINUTE_MS
from tests.simulator.check import expected_tables, stored_tables, sums_differences, table_differences
from tests.simulator.faults import Allowed, Fault, Plan, draw_plan
from tests.simulator.group import Group
from tests.simulator.hour_check import hour_differences
from tests.simulator.ledger_check import lacking_shards, ledger_differences
from tests.simulator.lives import Lives, Slot
from tests.simulator.log import Log, Part
from tests.simulator.mail import Mailbox
from tests.simulator.process import State
from tests.simulator.receipt_check import receipt_differences
from tests.simulator.script import Script, write_script
from tests.simulator.store import Shelf
from tests.simulator.undisturbed import alert_differences, expected_alerts, stored_alerts
from tests.simulator.worker import Worker
from tests.simulator.world import EPOCH_MS, US, StuckError, World

_CALM_AFTER_MS = 10_000
#: A worker that has not seen the end of the log yet may go by its own clock so far, and by a fetch more.
_AHEAD_AT_MOST_MS = 61_000
#: What is judged so early, no record can come before.
_AHEAD_AND_EQUAL_MS = 100
_LIMIT_MS = 45 * MINUTE_MS  # after the calm: a ticket may wait for half an hour for others of its cause


@dataclass
class Result:
    """What became of a seed."""

    seed: int
    digest: str
    faults: list[str]
    differences: list[str]
    lived: int = 0  # processes


@dataclass
class Run(Lives):
    """All of one seed."""

    seed: int
    allowed: Allowed
    world: World = field(init=False)
    script: Script = field(init=False)
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.script = write_script(random.Random(self.seed * 2))
        self.plan = draw_plan(random.Random(self.seed * 2 + 1), self.script, self.allowed)
        self.world = World(self.seed)
        self.shelf = Shelf()
        self.log = Log(self.script.writes)
        self.mailbox = Mailbox() if self.script.has_budgets else None
        if self.mailbox is not None:
            self.mailbox.lacking = partial(lacking_shards, self.shelf, self.log)
        self.group = Group(self.world, self.script.partitions, self.plan.session_ms)
        self.slots = [Slot(number) for number in range(self.plan.workers)]
        self.triggers: list[Fault] = []
        self.buried: list[Worker] = []  # so that nothing of them is collected while the run goes on
        self.calm = False
        self.judged_ms: int | None = None
        self.drained = False
        self.final_ms: int | None = None
        end_ms = self.script.end_ms
        self.last_tick_ms = (end_ms + MINUTE_MS) // 10_000 * 10_000
        self.as_of_ms = end_ms + self.world.rng.randrange(-MINUTE_MS, 5 * MINUTE_MS)

    # -- the run -------------------------------------------------------------------------------------------

    def go(self) -> Result:
        """Run it all."""
        world, end_ms = self.world, self.script.end_ms
        for slot in self.slots:
            world.after(world.pause(0, 20_000), self._start_again, slot)
        for fault in self.plan.faults:
            world.at((fault.at_ms - EPOCH_MS) * US, self._inject, fault)
        try:
            calm_ms = end_ms + _CALM_AFTER_MS
            world.at((calm_ms - EPOCH_MS) * US, self._calm_down)
            limit_ms = calm_ms + _LIMIT_MS
            world.run(lambda: self.calm, limit_ms)
            self._look()
            world.run(lambda: self.drained, limit_ms)
            if self._fault() is None:
                self._store_all(limit_ms)
            found = self._differences()
        except StuckError as stuck:
            found = [f"stuck: {stuck}", *self._where()]
        finally:
            for slot in self.slots:
                if slot.worker is not None:
                    slot.worker.process.kill()
        return Result(self.seed, world.digest, world.faults, found, sum(slot.lives for slot in self.slots))

    def _calm_down(self) -> None:
        """All faults stop; a last rebalance makes everybody seek."""
        self.calm = True
        self.triggers.clear()
        self.plan.odds.calm()
        for slot in self.slots:
            slot.clock.mend()
        self.plan.fetching.dropped = self.plan.fetching.repeated = 0.0
        self.plan.fetching.every_ms, self.plan.fetching.most = 6_000, 1_000
        self.world.note("calm")
        for slot in self.slots:
            if slot.worker is not None and slot.worker.process.state is State.FROZEN:
                slot.worker.process.thaw()
        one = Slot(len(self.slots), last=True)
        self.slots.append(one)
        self.world.after(self.plan.odds.latest_ms, self._start, one)
        self._last = one

    def _live(self) -> list[Worker]:
        return [
            slot.worker
            for slot in self.slots
            if slot.worker is not None and not slot.worker.process.dead and not slot.worker.stopping
        ]

    def _fault(self) -> BaseException | None:
        for slot in self.slots:
            if slot.worker is not None:
                if slot.worker.shard_manager.fault is not None:
                    return slot.worker.shard_manager.fault
                if slot.worker.process.errors:
                    return slot.worker.process.errors[0]
        for worker in self.buried:
            if worker.shard_manager.fault is not None or worker.process.errors:
                return worker.shard_manager.fault or worker.process.errors[0]
        return None

    def _look(self) -> None:
        self.drained = self._fault() is not None or self._is_drained()
        self.world.after(3_000, self._look)

    def _is_drained(self) -> bool:
        if self._last.worker is None:
            return False
        live = self._live()
        if any(worker.rebalancing for worker in live):
            return False
        owned = [owned for worker in live for owned in worker.shard_manager.owned.values()]
        if sorted(each.number for each in owned) != list(range(self.script.partitions)):
            return False
        now_ms = self.world.now_ms
        for each in owned:
            if each.sweep_due_ms is not None or each.align.waits or each.holes or each.repricing:
                return False
            if each.align.tick_ms is not None and each.align.tick_ms <= self.last_tick_ms:
                return False
            for part in self.log.shard_parts:
                if part.partition == each.number and each.shard.position.next.get(
                    part.topic, 0
                ) < self.log.end(part, now_ms):
                    return False
        if not self._is_told(live):
            return False
        return all(
            worker.shard_manager.reference_next.get(topic, 0) >= self.log.end(Part(topic, 0), now_ms)
            for worker in live
            for topic in ("prices", "controls")
        )

    def _is_told(self, live: list[Worker]) -> bool:
        """Whether the rules across jobs were judged over the whole log, and nothing waits to be sent."""
        if self.mailbox is None:
            return True
        first = [worker for worker in live if 0 in worker.shard_manager.owned]
        rules = None if len(first) != 1 else first[0].ledger_rules
        until_ms = -(-self.script.end_ms // MINUTE_MS) * MINUTE_MS
        if rules is None or rules.requester is None or rules.done_ms < until_ms or rules.requester.waiting:
            return False
        if rules.has_receipts_left:
            return False
        self.judged_ms = rules.done_ms
        posts = [worker.notifier for worker in live if worker.notifier is not None]
        return not any(each.waiting or each.behind or each.in_flight or each.rows_waiting for each in posts)

    def _store_all(self, limit_ms: int) -> None:
        """The last checkpoint, of everything."""
        self.final_ms = self.as_of_ms
        done: list[bool] = []

        async def store(worker: Worker) -> None:
            while not await worker.shard_manager.store_all(open_attempts=True):
                if worker.shard_manager.fault is not None:
                    break
                await asyncio.sleep(1)
            done.append(True)

        live = self._live()
        for worker in live:
            worker.stopping = worker.storing = True
            worker.process.call_soon(lambda worker=worker: worker.process.create_task(store(worker)))
        self.world.run(lambda: len(done) == len(live) or self._fault() is not None, limit_ms)

    def _differences(self) -> list[str]:
        fault = self._fault()
        if fault is not None:
            return [f"a shard manager stopped: {fault!r}"]
        workers = [
            slot.worker for slot in self.slots if slot.worker is not None and not slot.worker.process.dead
        ]
        shards = [owned.shard for worker in workers for owned in worker.shard_manager.owned.values()]
        books = [shard.books for shard in shards]
        got = stored_tables(self.shelf, self.log, books)
        found = table_differences(got, expected_tables(self.script, self.log, self.as_of_ms))
        found += sums_differences(self.shelf, shards)
        alerts = expected_alerts(self.script, self.log, self.last_tick_ms) if self._clocks_agreed else {}
        if self.mailbox is not None and self.judged_ms is not None:
            tables = expected_tables(self.script, self.log, self.judged_ms)
            is_on_time = self.script.gap is None and self._clocks_agreed
            if self._clocks_agreed:
                found += hour_differences(self.shelf, self.log, tables, alerts.values(), self.judged_ms)
            found += receipt_differences(
                self.shelf, tables, self.mailbox, self.judged_ms, is_on_time=is_on_time
            )
            found += ledger_differences(
                self.shelf,
                self.log,
                tables,
                self.mailbox,
                self.judged_ms,
                is_on_time=is_on_time,
            )
        if self.world.ahead_ms > _AHEAD_AT_MOST_MS:
            found.append(f"a worker took it to be {self.world.ahead_ms} ms later than it is")
        if self._clocks_agreed:
            found += alert_differences(stored_alerts(self.shelf), alerts)
        return found

    @property
    def _clocks_agreed(self) -> bool:
        """Whether every worker judged what it judged when it was time for it."""
        world = self.world
        return self.plan.clocks_agree and world.ahead_ms <= _AHEAD_AND_EQUAL_MS and not world.doubted

    def _where(self) -> list[str]:
        found = []
        for worker in self._live():
            owned = {
                n: (h.shard.position.next, h.align.tick_ms, h.sweep_due_ms, h.holes, h.repricing)
                for n, h in worker.shard_manager.owned.items()
            }
            found.append(f"{worker.process.name}: rebalancing {worker.rebalancing}, holds {owned}")
        return found


def run_seed(seed: int, allowed: Allowed | None = None) -> Result:
    """Run one seed."""
    quiet = logging.root.manager.disable
    if quiet < logging.CRITICAL:  # whoever runs many has said so: to change it costs a look at every logger
        logging.disable(logging.CRITICAL)
    enabled = gc.isenabled()
    gc.disable()  # what is collected when must not show
    landing_s = rehydrate._LANDING_S
    rehydrate._LANDING_S = 0.5  # to look every 20 ms would be half of all that happens here
    try:
        return Run(seed, allowed or Allowed()).go()
    finally:
        asyncio._set_running_loop(None)
        rehydrate._LANDING_S = landing_s
        if quiet < logging.CRITICAL:
            logging.disable(quiet)
        if enabled:
            gc.enable()
