"""One attack on a worker from its start to the comparison of its books; `loadtest.abuse` says what it is for."""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from loadtest import abuse_judge, soak_judge
from loadtest.abuse_crew import Crew, Plan
from loadtest.abuse_honest import Seen
from loadtest.abuse_live import Live
from loadtest.abuse_watch import Watch, between, is_query_process, most, query_processes
from loadtest.abuse_wire import Target
from loadtest.drive import Drive
from loadtest.latency_load import NAMES
from loadtest.latency_world import ROOT, START_S, WorldError, machine
from loadtest.saying import say
from loadtest.soak_load import GPUS, Load
from loadtest.soak_world import Member
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.config.settings import KafkaSettings
from streams.web import local_token
from tests.chaos.log import Offsets

_DRAIN_S: Final = 300.0
_COMMITTED_S: Final = 12
_STOP_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.02
#: Jobs sent at the very end have no time to be found.
_LAST_S: Final = 5.0
#: Jobs run for hours, and few end while they are looked at.
_LIFE_S: Final = (1_800, 14_400)
_AMOUNT_EVERY_S: Final = 60
QUESTIONS: Final = ("healthz", "jobs", "sql", "stream")
_EDGE_METRICS: Final = "trainfare_web_"


@dataclass
class Attack:
    """One run on a broker that is there."""

    options: argparse.Namespace
    kafka: KafkaSettings
    directory: Path
    worker: Member = field(init=False)

    def __post_init__(self) -> None:
        """Make the worker, which is not started yet."""
        env = {
            "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "TRAINFARE_KAFKA_PARTITIONS": str(self.kafka.partitions),
        }
        self.worker = Member("worker", env, self.directory, ("--data", str(self._data)))

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def go(self) -> dict[str, Any]:
        """Measure the quiet time and the attack, stop in the midst of it, then meter the rest and compare."""
        options = self.options
        with ExitStack() as stack:
            stack.callback(self.worker.kill)
            self._start()
            begin_s = int(time.time())
            load = Load(
                options.rate * GPUS, begin_s, jobs=min(options.jobs, options.rate), life_s=_LIFE_S, amount_every_s=_AMOUNT_EVERY_S
            )  # fmt: skip
            drive = Drive(self.kafka, load, begin_s)
            drive.start()
            drive.opened.wait()
            self._caught_up(_COMMITTED_S * options.rate)
            say(f"{options.rate:,} messages/s; settling for {options.settle:g} s")
            time.sleep(options.settle)
            figures = self._attacked(drive)
            say("starting the worker again, and metering what was sent meanwhile")
            self._start()
            drive.end()
            self._caught_up(0)
            if (code := self.worker.stop()) != 0:
                raise WorldError(f"the second worker ended with {code}:\n{self.worker.said()}")
        say("comparing the totals with the oracle's")
        return {**figures, **self._compared(load), "events_sent": drive.sent}

    def _start(self) -> None:
        worker, files = self.worker, self.options.ulimit
        worker.start()
        # Before the interpreter is up: the worker sees these limits, and can raise none of them.
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (files, files))
        deadline_s = time.monotonic() + START_S
        while not worker.look().ready:
            if not worker.alive or time.monotonic() > deadline_s:
                raise WorldError(f"the worker was not ready after {START_S:g} s:\n{worker.said()}")
            time.sleep(0.2)

    def _attacked(self, drive: Drive) -> dict[str, Any]:
        options, worker = self.options, self.worker
        watch, live = Watch(worker.pid), Live(self.kafka, self._data)
        target = Target(urlsplit(worker.url).port or 0, local_token.read(self._data) or "", options.addresses)
        honest = Crew("honest", Plan(target, honest=True))
        attackers: list[Crew] = []
        try:
            watch.start()
            live.start()
            honest.wait_begun()
            time.sleep(options.settle / 3)  # their first questions are of their own start
            say(f"quiet for {options.quiet:g} s")
            loads = [os.getloadavg()[0]]
            quiet = self._phase(drive, options.quiet)
            plans = plans_of(options, target)
            attackers = [Crew(name, plan) for name, plan in plans.items()]
            for crew in attackers:
                crew.wait_begun()
            say(f"attacked for {options.seconds:g} s")
            attacked = self._phase(drive, options.seconds)
            alive, edge = worker.alive, _edge(worker.url)
            loads.append(os.getloadavg()[0])
            live.end()
            seen = [Seen(*each) for each in honest.end()["seen"]]
            say("SIGTERM to the worker")
            stop = self._stopped()
            watch.end()
            met = {crew.name: crew.end() for crew in attackers}
        except Exception as fault:
            raise WorldError(f"{fault}\n{worker.said()}") from fault
        finally:
            for crew in (honest, *attackers):
                crew.kill()
        if live.faults:
            say(f"{len(live.faults)} looks at the store failed, the last with: {live.faults[-1]}")
        return {
            "machine": machine(),
            "load_average": [round(each, 2) for each in loads],
            "seconds": options.seconds,
            "addresses": options.addresses,
            "attackers": {
                name: sum(getattr(plan, name) for plan in plans.values())
                for name in ("idle", "slow", "deaf", "bombers", "guessers")
            },
            "pid": worker.pid,
            "alive": alive,
            "baseline": self._figures(quiet, seen, live, watch),
            "attack": self._figures(attacked, seen, live, watch),
            "stop": stop,
            "live_faults": live.faults,
            "honest": {what: abuse_judge.outcomes(attacked.of(seen), what) for what in QUESTIONS},
            "edge": edge,
            "attackers_met": _merged(found["counts"] for found in met.values()),
            "longest_s": _merged(found["longest_s"] for found in met.values()),
            "said": _merged(found["said"] for found in met.values()),
            "clients_cpu_percent": {
                name: 100 * found["cpu_s"] / attacked.for_s for name, found in met.items()
            },
        }

    def _phase(self, drive: Drive, for_s: float) -> Phase:
        begin_s, sent, late, cpu_s = time.time(), drive.sent, drive.late_slices, self.worker.cpu_s()
        until_s = begin_s + for_s
        while (left_s := until_s - time.time()) > 0 and self.worker.alive:
            time.sleep(min(left_s, 0.5))
        if not self.worker.alive:
            raise WorldError("the worker ended by itself")
        return Phase(
            begin_s, time.time(), drive.sent - sent, drive.late_slices - late, self.worker.cpu_s() - cpu_s
        )

    def _stopped(self) -> dict[str, Any]:
        """Tell it to stop; seconds until its queries' processes are gone, and until it is."""
        worker, began_s = self.worker, time.monotonic()
        queries = query_processes(worker.pid)
        worker.signal(signal.SIGTERM)
        queries_s: float | None = None
        while worker.alive and time.monotonic() - began_s < _STOP_WITHIN_S:
            if queries_s is None and not any(map(is_query_process, queries)):
                queries_s = time.monotonic() - began_s
            time.sleep(_POLL_S)
        took_s = time.monotonic() - began_s
        code = worker.stop()  # by force, if it still runs
        return {
            "s": took_s,
            "code": code,
            "queries": len(queries),
            "queries_s": took_s if queries_s is None else queries_s,
        }

    def _figures(self, phase: Phase, seen: Sequence[Seen], live: Live, watch: Watch) -> dict[str, Any]:
        looks, of_phase, for_s = between(watch.looks, phase.begin_s, phase.end_s), phase.of(seen), phase.for_s
        probes = live.between(phase.begin_s, phase.end_s - min(_LAST_S, for_s / 3))
        query_cpu_s = _used([look.queries_cpu_s for look in looks])
        return {
            "live": abuse_judge.live(probes),
            "live_worst_ms": abuse_judge.worst_ms(probes, phase.begin_s),
            **{what: abuse_judge.answers(of_phase, what) for what in QUESTIONS},
            "rss_mib": most(looks, lambda look: look.rss_mib),
            "files": most(looks, lambda look: look.files),
            "queries": most(looks, lambda look: look.queries),
            "queries_mib": most(looks, lambda look: look.queries_mib),
            "queries_cpu_percent": 100 * query_cpu_s / for_s,
            "shared_mib": most(looks, lambda look: look.shared_mib),
            "worker_cpu_percent": 100 * phase.cpu_s / for_s,
            "load_per_s": phase.sent / for_s,
            "late_slices": phase.late_slices,
        }

    def _caught_up(self, behind_at_most: int) -> None:
        """Wait until the worker is so close behind the log, by what it has committed."""
        offsets, deadline_s = Offsets(self.kafka), time.monotonic() + _DRAIN_S
        try:
            while (behind := offsets.behind()) > behind_at_most:
                if not self.worker.alive or time.monotonic() > deadline_s:
                    raise WorldError(f"{behind:,} records are not metered:\n{self.worker.said()}")
                time.sleep(0.5)
        finally:
            offsets.close()

    def _compared(self, load: Load) -> dict[str, Any]:
        """What differs from the oracle, what it all cost, and how `trainfare audit` ends; nobody has the store open."""
        store = ClickHouseStore(Embedded(data_dir=self._data))
        try:
            got = soak_judge.stored(store, NAMES)
        finally:
            store.close()
        want = soak_judge.expected(load.account)
        command = [sys.executable, "-m", "streams.cli.main", "audit", "--data", str(self._data)]
        audit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if audit.returncode != 0:
            say(f"trainfare audit ended with {audit.returncode}:\n{audit.stdout}{audit.stderr}")
        return {
            "wrong": soak_judge.differences(got, want),
            "usd": f"{want.cost_nano() / 1e9:.9f}",
            "audit_code": audit.returncode,
        }


@dataclass(frozen=True)
class Phase:
    """A part of the run, by the clock that all processes share."""

    begin_s: float
    end_s: float
    sent: int
    late_slices: int
    cpu_s: float  # of the worker

    @property
    def for_s(self) -> float:
        """How long it lasted."""
        return self.end_s - self.begin_s

    def of(self, seen: Sequence[Seen]) -> list[Seen]:
        """What was asked in it or waited for an answer in it: one that takes longer than a phase is in each."""
        return [
            each for each in seen if each.at_s < self.end_s and each.at_s + each.ms / 1000 >= self.begin_s
        ]


def plans_of(options: argparse.Namespace, target: Target) -> dict[str, Plan]:
    """The attackers by process; each kind has one, so that none waits for another."""
    return {
        "idle": Plan(target, idle=options.idle),
        "slow and deaf": Plan(target, slow=options.slow, deaf=options.deaf, guessers=options.guessers),
        "bombs": Plan(target, bombers=options.bombers),
    }


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def _used(cpu_s: Sequence[float]) -> float:
    """Seconds that processes used which come and go: what was added from look to look."""
    return sum(max(after - before, 0.0) for before, after in pairwise(cpu_s))


def _edge(url: str) -> dict[str, float]:
    """What the worker says of its connections."""
    with urlopen(f"{url}/metrics", timeout=30) as answer:  # noqa: S310 - the http address of our worker
        families = text_string_to_metric_families(answer.read().decode())
    return {
        sample.name.removeprefix(_EDGE_METRICS) + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith(_EDGE_METRICS) and not sample.name.endswith("_created")
    }  # fmt: skip
