"""Hours of load with a fault every minute, and whether anything grew, was lost or went unnoticed: `python -m loadtest.soak`.

A real broker, three `trainfare worker` processes and a store that they share (with --embedded one worker with
its own ClickHouse), thousands of nodes sampled every second. Faults hit two of the workers, the store and the
broker; the third worker is the observer whose memory is the figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

from confluent_kafka import KafkaException

from loadtest import soak_judge
from loadtest.drive import Drive
from loadtest.latency_world import WorldError, broker, machine, settings_for
from loadtest.soak_faults import Faults
from loadtest.soak_load import Load
from loadtest.soak_watch import Watch, line
from loadtest.soak_world import Member, environment
from sinks.clickhouse import ClickHouseStore, Embedded, Target
from streams.config.settings import KafkaSettings, Settings
from tests.chaos.log import Offsets
from tests.store_process import StoreProcess

LOOK_EVERY_S = 10.0
FAULT_EVERY_S = 60.0
_FIRST_FAULT_S = 40.0
_WARM_UP_S = 900.0  # jobs live up to eight minutes, and stay for the horizon
_SETTLE_S = 600.0
_START_S = 120.0
_RSS_LIMIT_PERCENT = 5.0


@dataclass
class Soak:
    """One run; `go` once."""

    options: argparse.Namespace
    directory: Path
    out: Path
    members: list[Member] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)
    last_fault: str = ""

    def go(self) -> dict[str, object]:
        """Feed, hurt and look; then heal, drain and compare."""
        with ExitStack() as stack:
            kafka = stack.enter_context(broker(self.directory / "kafka"))
            settings = settings_for(kafka.bootstrap_servers, self.directory / "data")
            store = None
            if not self.options.embedded:
                store = stack.enter_context(StoreProcess(self.directory / "store"))
            target = Embedded(data_dir=self.directory / "data") if store is None else store.target()
            stack.enter_context(self._group(settings, store))
            victims = self.members[:1] if store is None else self.members[:2]
            faults = Faults(victims, store, kafka, settings.kafka, self.options.seed)
            begin_s = int(time.time())
            load = Load(self.options.samples_per_s, begin_s, self.options.seed)
            feed = Drive(settings.kafka, load, begin_s, slices=1)
            feed.start()
            self._run(feed, faults, settings.kafka)
            feed.end()
            return self._finish(load, feed, faults, settings.kafka, target)

    @contextmanager
    def _group(self, settings: Settings, store: StoreProcess | None) -> Iterator[None]:
        """Start the workers; none is left at the end."""
        env = environment(settings, None if store is None else store.url, self.options.job_horizon_s)
        names = ("w0",) if store is None else ("w0", "w1", "observer")
        arguments = ("--data", str(self.directory / "data")) if store is None else ()
        self.members = [Member(name, env, self.directory, arguments) for name in names]
        try:
            for member in self.members:
                member.start()
            deadline_s = time.monotonic() + _START_S
            while not all(member.look().ready for member in self.members):
                for member in self.members:
                    if not member.alive or time.monotonic() > deadline_s:
                        raise WorldError(f"{member.name} did not become ready:\n{member.said()}")
                time.sleep(0.5)
            yield
        finally:
            for member in self.members:
                member.kill()

    # -- while it runs -------------------------------------------------------------------------------------

    def _run(self, feed: Drive, faults: Faults, kafka: KafkaSettings) -> None:
        began_s, seconds = time.monotonic(), self.options.minutes * 60
        hurting: threading.Thread | None = None
        due_s = _FIRST_FAULT_S
        failed: list[BaseException] = []

        def hurt() -> None:
            try:
                self.last_fault = faults.next()
            except BaseException as fault:  # noqa: BLE001 - raised again by the loop
                failed.append(fault)

        for look in count(1):
            time.sleep(max(began_s + look * LOOK_EVERY_S - time.monotonic(), 0))
            at_s = time.monotonic() - began_s
            # The last minute is without a fault.
            hurts = not self.options.no_faults and due_s <= at_s < seconds - FAULT_EVERY_S / 2
            if hurts and not _busy(hurting):
                due_s += FAULT_EVERY_S
                hurting = threading.Thread(target=hurt, name="faults", daemon=True)
                hurting.start()
            self._look(at_s, feed.sent, kafka, faults.doing)
            if failed:
                raise failed[0]
            if feed.fault is not None:
                raise feed.fault
            if at_s >= seconds:
                break
        if hurting is not None:
            hurting.join()

    def _look(self, at_s: float, sent: int, kafka: KafkaSettings, hurting: str) -> None:
        if not hurting:
            for member in self.members:
                member.keep_alive()
        lag = _lag(kafka)
        looks = {member.name: member.look() for member in self.members}
        for member in self.members:
            self.watch.seen(at_s, member.name, member.life, looks[member.name], lag)
        fault = f"{hurting} ..." if hurting else self.last_fault
        self.last_fault = "" if not hurting else self.last_fault
        workers = {name: asdict(look) for name, look in looks.items()}
        self._write({"at_s": round(at_s, 1), "sent": sent, "lag": lag, "fault": fault, "workers": workers})
        sys.stdout.write(line(at_s, sent, lag, looks, fault) + "\n")
        sys.stdout.flush()

    def _write(self, body: dict[str, object]) -> None:
        with self.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(body) + "\n")

    # -- the end -------------------------------------------------------------------------------------------

    def _finish(
        self, load: Load, feed: Drive, faults: Faults, kafka: KafkaSettings, target: Target
    ) -> dict[str, object]:
        want = soak_judge.expected(load.account)
        began_s = time.monotonic()
        drained = self._until(lambda: _lag(kafka) == 0)
        got: soak_judge.Totals | None = None
        if isinstance(target, Embedded):
            time.sleep(2 * LOOK_EVERY_S)
        else:
            got = self._settled(target, want)
        final = {member.name: member.look() for member in self.members}
        codes = {member.name: member.stop() for member in self.members}
        if got is None:
            got = _stored(target)
        found = soak_judge.differences(got, want)
        watch, ends = self.watch, [end for member in self.members for end in member.ends]
        warm_up_s = min(_WARM_UP_S, self.options.minutes * 60 / 3)
        slopes = watch.slopes(warm_up_s)
        observer = slopes.get(f"{self.members[-1].name}.1")
        summary: dict[str, object] = {
            "minutes": self.options.minutes,
            "job_horizon_s": self.options.job_horizon_s,
            "warm_up_s": warm_up_s,
            "machine": machine(),
            "faults": faults.fired,
            "records_sent": feed.sent,
            "jobs": len(load.account.jobs),
            "gpu_samples_sent": want.gpu_samples,
            "gpu_samples_counted": got.gpu_samples,
            "usd_expected": f"{want.cost_nano() / 1e9:.9f}",
            "usd_stored": f"{got.cost_nano() / 1e9:.9f}",
            "ledger_rows": sum(each.rows for each in got.jobs.values()),
            "differences": len(found),
            "first_differences": found[:10],
            "drained": drained,
            "settled_s": round(time.monotonic() - began_s, 1),
            "rss_slope_percent": observer,
            "rss_slope_percent_by_life": slopes,
            "lag_max": watch.lag_max,
            "backlog_max_mib": round(watch.backlog_max_mib, 1),
            "looks_ready": [watch.ready, watch.not_ready],
            "audits_ok": watch.audits_ok,
            "audits_wrong_while_behind": watch.audits_wrong_behind,
            "audits_wrong": watch.audits_wrong[:20],
            "audits_none": watch.audits_none,
            "audit_at_the_end": {name: look.audit_ok for name, look in final.items()},
            "canary": dict(watch.canary),
            "unasked_ends": ends,
            "exit_codes": codes,
        }
        too_steep = observer is not None and observer >= _RSS_LIMIT_PERCENT and not self.options.embedded
        wrong = found or watch.audits_wrong or ends or not drained or watch.canary["wrong"] or too_steep
        summary["ok"] = not wrong and set(codes.values()) == {0}
        self._write({"summary": summary})
        return summary

    def _settled(self, target: Target, want: soak_judge.Totals) -> soak_judge.Totals:
        """What is stored, once it is what was sent, or after so long all the same."""
        found: list[soak_judge.Totals] = []

        def same() -> bool:
            found.append(_stored(target))
            return not soak_judge.differences(found[-1], want)

        self._until(same)
        return found[-1]

    def _until(self, ready: Callable[[], bool]) -> bool:
        deadline_s = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline_s:
            for member in self.members:
                member.keep_alive()
            if ready():
                return True
            time.sleep(2)
        return False


def _busy(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()


def _lag(kafka: KafkaSettings) -> int | None:
    """Records that no worker has metered and committed; None: the broker does not answer."""
    with suppress(KafkaException):
        offsets = Offsets(kafka)
        try:
            ends, committed = offsets.ends(), offsets.committed()
            return sum(end - committed[place] for place, end in ends.items())
        finally:
            offsets.close()
    return None


def _stored(target: Target) -> soak_judge.Totals:
    store = ClickHouseStore(target)
    try:
        return soak_judge.stored(store)
    finally:
        store.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the summary; 0 nothing was wrong, 1 something was, or it could not be run."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--samples-per-s", type=int, default=20_000, help="GPU samples; eight in a message")
    parser.add_argument("--embedded", action="store_true", help="one worker with a ClickHouse of its own")
    parser.add_argument(
        "--job-horizon-s",
        type=int,
        default=300,
        help="meter.job_horizon_ms: ended jobs leave memory after it; short, so that as many leave as come",
    )
    parser.add_argument("--no-faults", action="store_true", help="the load alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory for all logs and the store; else they go")
    parser.add_argument("--out", type=Path, default=Path("soak.jsonl"), help="what was seen, a JSON a line")
    options = parser.parse_args(argv)
    with ExitStack() as stack:
        directory = options.keep
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-soak-")))
        directory.mkdir(parents=True, exist_ok=True)
        options.out.write_text("", encoding="utf-8")
        try:
            summary = Soak(options, directory, options.out).go()
        except WorldError as fault:
            sys.stderr.write(f"soak: {fault}\n")
            return 1
    sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
