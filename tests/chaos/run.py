"""A chaos run: workers on a real Kafka and one store, faults by a seeded schedule, and the tables against the oracle's.

`python -m tests.chaos.run --jobs 300 --seconds 3300 --cycles 30` prints the table.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Final

from sinks.clickhouse import ClickHouseStore
from streams.config.settings import KafkaSettings
from streams.notify.webhooks.receiver import Received
from streams.topics import SHARD_TOPICS
from streams.transport.admin import connect, create_topics
from streams.worker.health.group_shards import group_shards
from tests.chaos.across_jobs import OwnInbox, Wanted, records, told, wait_until_told
from tests.chaos.fleet import BEGIN_MS, Fleet, length_ms
from tests.chaos.hourly import of_the_hour
from tests.chaos.judged import Judged, judge
from tests.chaos.log import Feed, Offsets, Place, read_back
from tests.chaos.plan import WELL_WITHIN_S, Plan, Report
from tests.chaos.present import PAID_UNTIL_MS, WEEK_END_MS, Present, create_topics_of_given_times
from tests.chaos.stored import (
    money,
    money_of,
    stored_books,
    stored_counts,
    stored_dead,
    stored_refused,
    stored_tables,
)
from tests.chaos.workers import COMMAND, OWN_PRESENT, Worker, Workers
from tests.kafka.broker import KafkaBroker, shared_broker
from tests.kafka.proxy import KINDS as MOMENTARY
from tests.kafka.proxy import Proxy
from tests.kafka.test_alerts_live import SECRET
from tests.oracle.model import Line, Tables
from tests.property.compare import differences
from tests.store_process import StoreProcess

#: Of a run with a present of its own: so long after its hour has ended faults go on, with so many seconds between them.
_AFTER_HOUR_MS: Final = 45_000
_LONG_REST_S: Final = (6.0, 15.0)
#: How often connections break when momentary answers begin.
_HANGS_UP_RATIO: Final = 0.7
_REBALANCED: Final = "shards assigned"


class Chaos:
    """One run; `go` once."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        say: Callable[[str], None] = lambda _: None,
        broker: KafkaBroker | None = None,
    ) -> None:
        self.plan = plan
        self.broker = shared_broker() if broker is None else broker
        self._directory = directory
        self._say = say
        self._rng = random.Random(plan.seed)
        prefix = f"c{uuid.uuid4().hex[:8]}."
        self.kafka = KafkaSettings(
            bootstrap_servers=self.broker.bootstrap_servers,
            topic_prefix=prefix,
            group_id=f"{prefix}g",
            partitions=plan.partitions,
        )
        self.report = Report()
        self.proxy: Proxy
        self._last_fault_s = 0.0
        self._kinds_left: list[str] = []
        self._received: list[Received] = []
        self._present = Present(plan.lead_s) if plan.has_budgets else None
        begun_ms = BEGIN_MS + length_ms(plan.seconds) if self._present is None else self._present.begun_ms
        self._fleet = Fleet(plan.seed, plan.jobs, plan.seconds, begun_ms - length_ms(plan.seconds))
        #: What goes on is paid up to here.
        self._as_of_ms = self._fleet.as_of_ms if self._present is None else PAID_UNTIL_MS

    def go(self) -> Report:
        """Feed, disturb, drain, stop, compare."""
        create = create_topics if self._present is None else create_topics_of_given_times
        create(self.kafka, connect(self.kafka))
        with (
            StoreProcess(self._directory / "store") as front,
            Proxy(self.broker.port_behind_proxy, self.broker.proxy_socket) as self.proxy,
        ):
            env = worker_env(self.kafka, front.url, self.plan.session_timeout_ms)
            env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"] = self.broker.proxied_servers
            env |= self.plan.env
            if self._present is None:
                env["TRAINFARE_METER_AS_OF_MS"] = str(self._as_of_ms)
                with Workers(self._directory, env, self.plan.module) as workers:
                    self._run(workers, front, Feed(self.kafka, self._fleet.events(), self.plan.per_s))
            else:
                self._go_in(self._present, front, env)
        return self.report

    def _go_in(self, present: Present, front: StoreProcess, env: dict[str, str]) -> None:
        """Run in a present of its own, with somebody to tell."""
        fleet = self._fleet
        events = chain(records(fleet.begin_ms), fleet.events(), of_the_hour(present.begun_ms))
        with OwnInbox(present) as inbox:
            self._received = inbox.received
            Workers.load()
            present.begin()
            env |= present.env | {
                "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
                "TRAINFARE_ALERTS_ALLOW_HOSTS": inbox.receiver.host_port,
                "TRAINFARE_ALERTS_DEFAULT_WEBHOOK": inbox.receiver.url,
            }
            module = _in_own_present(self.plan.module)
            with Workers(self._directory, env, module) as workers:
                self._run(workers, front, Feed(self.kafka, events, self.plan.per_s, present.now_ms))

    def _run(self, workers: Workers, front: StoreProcess, feed: Feed) -> None:
        offsets = Offsets(self.kafka)
        for _ in range(2):
            workers.start()
        workers.lives[0].wait_ready()
        begin_s = time.monotonic()
        feed.start()
        first = list(self.plan.kinds)
        self._rng.shuffle(first)
        while (is_planned := len(self.report.cycles) < self.plan.cycles) or self._waits_for_the_hour():
            if not is_planned:
                feed.per_s = 0
            self._check_in_time(feed)
            time.sleep(self._rng.uniform(*(self.plan.rest_s if is_planned else _LONG_REST_S)))
            kind = first.pop() if first else self._rng.choice(self.plan.kinds)
            self._say(f"{time.monotonic() - begin_s:5.0f} s {kind:<17} sent {feed.sent:,}")
            self.disturb(kind, workers, front)
            self._last_fault_s = time.monotonic()
            self._replace_the_dead(workers)
        feed.per_s = 0
        self._see_owners(offsets)
        feed.join()
        self._check_in_time(feed)
        assert feed.fault is None, feed.fault
        self._say(f"{time.monotonic() - begin_s:5.0f} s all {feed.sent:,} sent")
        self._settle(workers, front, offsets, begin_s)
        offsets.close()

    def _see_owners(self, offsets: Offsets) -> None:
        """Every shard has an owner, and more is committed, soon after the last fault."""
        before = offsets.committed_sum()
        admin = connect(self.kafka)
        while (after_s := time.monotonic() - self._last_fault_s) < WELL_WITHIN_S:
            report = self.report
            seen = group_shards(admin, self.kafka, 5.0) if report.owned_after_s is None else None
            if seen is not None and not seen.unowned:
                report.owned_after_s = after_s
            if report.goes_on_after_s is None and (offsets.committed_sum() > before or offsets.behind() == 0):
                report.goes_on_after_s = after_s
            if report.owned_after_s is not None and report.goes_on_after_s is not None:
                return
            time.sleep(0.5)

    def _waits_for_the_hour(self) -> bool:
        return self._present is not None and self._present.now_ms() < WEEK_END_MS + _AFTER_HOUR_MS

    def _check_in_time(self, feed: Feed) -> None:
        """What is sent after the hour has ended is not judged with it."""
        if self._present is not None and feed.is_alive() and self._present.now_ms() > WEEK_END_MS:
            raise AssertionError(
                f"the hour ended before all was sent: this machine needs more than lead_s={self.plan.lead_s:g}"
            )

    # -- faults --------------------------------------------------------------------------------------------

    def disturb(self, kind: str, workers: Workers, front: StoreProcess) -> None:
        """One cycle."""
        alive = workers.alive
        victim = self._rng.choice(alive)
        if kind == "join" and len(alive) > 2:
            kind = "leave"
        if kind == "leave" and len(alive) < 3:
            kind = "join"
        self.report.cycles.append(kind)
        if kind == "kill":
            victim.kill()
            time.sleep(self._rng.uniform(0, 2))
            workers.start()
        elif kind == "term":
            self._terminate(victim)
            workers.start()
        elif kind == "leave":
            self._terminate(victim)
        elif kind == "join":
            workers.start()
        elif kind == "momentary":
            self._mislead(victim, workers)
        elif kind == "kill_all":
            for worker in alive:
                worker.kill()
            for _ in alive:
                workers.start()
        else:
            self._freeze(victim, front if kind == "freeze_in_flight" else None)

    def _mislead(self, victim: Worker, workers: Workers) -> None:
        """The broker gives answers that are true for a moment only, while a worker dies and another joins."""
        if not self._kinds_left:
            self._kinds_left = self._rng.sample(list(MOMENTARY), len(MOMENTARY))
        kinds = [self._kinds_left.pop() for _ in range(min(2, len(self._kinds_left)))]
        for kind in kinds:
            self.proxy.give(kind, self._rng.uniform(2.0, 5.0))
        victim.kill()
        if self._rng.random() < _HANGS_UP_RATIO:
            self.proxy.hang_up()
        workers.start()
        time.sleep(self._rng.uniform(2, 4.5))

    def _freeze(self, victim: Worker, front: StoreProcess | None) -> None:
        """Past the session, so that others own its shards when it wakes: the zombie; in the middle of inserts, too."""
        if front is not None:
            front.fault("slow", 6, delay_s=1.5)
            time.sleep(self._rng.uniform(0.6, 1.4))
        victim.signal(signal.SIGSTOP)
        time.sleep(self.plan.session_timeout_ms / 1000 + self._rng.uniform(0.5, 3))
        victim.signal(signal.SIGCONT)

    def _terminate(self, victim: Worker) -> None:
        is_up = bool(victim.text())  # before that nothing is held, and Python ends as it does by itself
        code = victim.terminate()
        if code != 0 and is_up:
            said = victim.text()[-300:]
            self.report.exits.append(f"{victim.name}: SIGTERM ended with {code}, after it said {said}")

    def _replace_the_dead(self, workers: Workers) -> None:
        for worker in workers.ended_by_themselves():
            worker.expected_end = True
            self.report.exits.append(f"{worker.name}: {worker.text()[-300:]}")
            workers.start()

    # -- the end -------------------------------------------------------------------------------------------

    def _settle(self, workers: Workers, front: StoreProcess, offsets: Offsets, begin_s: float) -> None:
        log = read_back(self.kafka)
        judged = judge(log, self._as_of_ms)
        store = ClickHouseStore(front.target())
        try:
            deadline_s = time.monotonic() + self.plan.patience_s
            restart_s = (
                None if self.plan.restart_after_s is None else time.monotonic() + self.plan.restart_after_s
            )
            # Money first, which is quick; what a zombie wrote of other tables is put right by a sweep, which may come later.
            while offsets.behind() or money(store) != money_of(judged.tables) or self._lags(store, judged):
                if time.monotonic() > deadline_s:
                    self.report.drained = False
                    break
                time.sleep(0.5)
                if restart_s is not None and time.monotonic() > restart_s:
                    restart_s += self.plan.restart_after_s or 0
                    for worker in workers.alive:
                        self._terminate(worker)
                        workers.start()
                self._replace_the_dead(workers)
            if self._present is not None:
                wanted = Wanted(judged.tables, log["prices", 0], self.plan.seconds, self._present.begun_ms)
                found = wait_until_told(store, self._received, wanted, self.plan.patience_s)
                self.report.differences += found
                self.report.told = told(self._received)
                self._replace_the_dead(workers)
            self.report.events = judged.events
            self.report.seconds = time.monotonic() - begin_s
            last = workers.alive
            for worker in last:  # all at once: none shall begin with what another leaves
                worker.ask_to_stop()
            for worker in last:
                self._terminate(worker)
            self.report.rebalances = workers.count(_REBALANCED)
            self.report.momentary = self.proxy.given
            self._compare(store, log, judged)
            self._say(f"{time.monotonic() - begin_s:5.0f} s compared")
        finally:
            store.close()

    def _lags(self, store: ClickHouseStore, judged: Judged) -> bool:
        return bool(differences(stored_tables(store), judged.tables, counts=False))

    def _compare(self, store: ClickHouseStore, log: Mapping[Place, list[Line]], judged: Judged) -> None:
        found = stored_tables(store)
        self.report.rows = _rows(found)
        self.report.differences += differences(found, judged.tables, counts=False)
        if (dead := stored_dead(store)) != judged.dead:
            wrong = {place for place, _ in dead.items() ^ judged.dead.items()}
            self._differ(f"dead letters differ at {sorted(wrong)[:5]} of {len(wrong)}")
        counts = stored_counts(store, range(self.plan.partitions))
        if counts != judged.counts:
            self._differ(f"books: got {counts}, want {judged.counts}")
        books = stored_books(store)
        in_log = {place: len(lines) for place, lines in log.items() if lines and place[0] in SHARD_TOPICS}
        if books != in_log:
            self._differ(f"stored books: got {books}, want {in_log}")
        refused = judged.counts.too_late + judged.counts.dead_lettered
        if (got := stored_refused(store)) != refused:
            self._differ(f"counts of dead letters: got {got}, want {refused}")

    def _differ(self, words: str) -> None:
        self.report.differences.append(words)


def worker_env(kafka: KafkaSettings, store_url: str, session_timeout_ms: int | None = None) -> dict[str, str]:
    """The settings that all workers share; without a session timeout the defaults of the group's times hold."""
    times = {
        "TRAINFARE_KAFKA_SESSION_TIMEOUT_MS": str(session_timeout_ms),
        "TRAINFARE_KAFKA_HEARTBEAT_INTERVAL_MS": "300",
    }
    return {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "TRAINFARE_KAFKA_GROUP_ID": kafka.group_id,
        "TRAINFARE_KAFKA_PARTITIONS": str(kafka.partitions),
        "TRAINFARE_CLICKHOUSE_URL": store_url,
        "TRAINFARE_WEB_PORT": "0",
        **(times if session_timeout_ms is not None else {}),
    }


def _in_own_present(module: tuple[str, ...]) -> tuple[str, ...]:
    """The same with a present of its own."""
    patched, own = OWN_PRESENT
    return OWN_PRESENT if module == COMMAND else (patched, f"{own},{module[1]}")


def _rows(tables: Tables) -> int:
    return sum(len(getattr(tables, part)) for part in ("ledger", "usage", "nodes", "jobs", "attempts"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--cycles", type=int, default=7)
    parser.add_argument("--per-s", type=float, default=1_500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--budgets", action="store_true", help="judge budgets, rules across jobs and receipts, too"
    )
    parser.add_argument("--lead-s", type=float, default=240, help="with --budgets: within which all is sent")
    parser.add_argument("--patched", default="", help="names of patches of tests.chaos.patched, with commas")
    parser.add_argument("--keep", type=Path, help="a directory for logs and the store")
    given = parser.parse_args()
    module = ("tests.chaos.patched", given.patched) if given.patched else ("streams.cli.main",)
    plan = Plan(
        given.jobs,
        given.seconds,
        given.cycles,
        given.per_s,
        given.seed,
        module=module,
        has_budgets=given.budgets,
        lead_s=given.lead_s,
    )
    directory = given.keep or Path(tempfile.mkdtemp(prefix="trainfare-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"logs in {directory}", flush=True)  # noqa: T201 - a command
    print(Chaos(plan, directory, lambda text: print(text, flush=True)).go())  # noqa: T201 - a command


if __name__ == "__main__":
    main()
