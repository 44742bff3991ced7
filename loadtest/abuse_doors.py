"""`trainfare serve` while its doors are held by connections that say nothing: `python -m loadtest.abuse_doors`.

It is attacked from the moment that it has ports, before its own worker is connected: it must start, take
signed webhooks and events, and let `trainfare publish` write. All are of one address, as behind a proxy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from loadtest.abuse_crew import Crew, Plan
from loadtest.abuse_honest import Seen
from loadtest.abuse_judge import Spread, Verdict, in_ms, spread_of
from loadtest.abuse_senders import KINDS, WITHIN_S
from loadtest.abuse_silent import Silent
from loadtest.abuse_wire import Target
from loadtest.latency_world import ROOT, START_S, WorldError, end_in_order, machine
from loadtest.saying import say
from loadtest.soak_world import Member
from streams.web import local_token

SHARE: Final = 0.99
_POLL_S: Final = 0.02
_PUBLISH_EVERY_S: Final = 10.0
_PUBLISH_S: Final = 120.0
_EXPORT: Final = re.compile(r"export (\w+)='([^']*)'")


class Doors:
    """One `serve` from its start to its end."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self._options = options
        self._data = directory / "data"
        self._secret, self._attackers_token = secrets.token_hex(16), secrets.token_hex(16)
        env = {
            "TRAINFARE_KAFKA_PARTITIONS": "2",
            "TRAINFARE_WEB_WRITE_TOKEN": self._attackers_token,
            "TRAINFARE_CI_GITHUB_SECRET": self._secret,
            "TRAINFARE_CI_RUNNER_GPUS": "gpu=8xH100",
        }
        self._serve = Member("serve", env, directory, ("--data", str(self._data)), command="serve")
        self._file = directory / "events.jsonl"

    def go(self) -> dict[str, Any]:
        """Attack from the first moment on; return figures."""
        crews: list[Crew] = []
        with ExitStack() as stack:
            stack.callback(self._serve.kill)
            stack.callback(_killed, crews)
            began_s = time.monotonic()
            self._serve.start()
            access = self._access()
            port = urlsplit(self._serve.url).port or 0
            of_log = int(access["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"].rpartition(":")[2])
            say(f"{self._options.silent} connections each at the log, from before the worker has any")
            log_only = Silent(log=self._options.silent, log_port=of_log)
            crews.append(Crew("log", Plan(Target(port, "", 0), silent=log_only)))
            self._until_ready()
            ready_s = time.monotonic() - began_s
            say(f"ready after {ready_s:.1f} s; and at webhooks and events, for {self._options.seconds:g} s")
            doors = Silent(self._options.silent, self._options.silent, self._options.stopping)
            crews.append(Crew("doors", Plan(Target(port, self._attackers_token, 0), silent=doors)))
            time.sleep(min(2.0, self._options.seconds))  # until all are there
            token = local_token.read(self._data) or ""
            honest = Crew("senders", Plan(Target(port, token, 0), senders=self._secret))
            crews.append(honest)
            published = self._published(access)
            alive, rss_mib = self._serve.alive, self._serve.rss_mib()
            seen = [Seen(*each) for each in honest.end()["seen"]]
            met = {name: counts for crew in crews[:2] for name, counts in crew.end()["counts"].items()}
            code = self._serve.stop()
        return {
            "machine": machine(), "seconds": self._options.seconds, "silent": log_only.total + doors.total, "alive": alive, "ready_s": ready_s,
            "senders": {what: _answers(seen, what) for what in KINDS},
            "outcomes": {what: _outcomes(seen, what) for what in KINDS},
            "published": published, "rss_mib": rss_mib, "attackers_met": met, "stop_code": code,
        }  # fmt: skip

    def _access(self) -> dict[str, str]:
        """How to reach the log, as soon as it can be."""
        path, deadline_s = self._data / "log" / "client.env", time.monotonic() + START_S
        while True:
            if not self._serve.alive or time.monotonic() > deadline_s:
                raise WorldError(f"`serve` has no log after {START_S:g} s:\n{self._serve.said()}")
            try:
                if found := dict(_EXPORT.findall(path.read_text(encoding="utf-8"))):
                    return found
            except OSError:
                time.sleep(_POLL_S)

    def _until_ready(self) -> None:
        deadline_s = time.monotonic() + START_S
        while not self._serve.look().ready:
            if not self._serve.alive or time.monotonic() > deadline_s:
                raise WorldError(f"`serve` was not ready after {START_S:g} s:\n{self._serve.said()}")
            time.sleep(0.2)

    def _published(self, access: Mapping[str, str]) -> list[int]:
        """Publish now and then, until the time is over; exit codes."""
        ends_s, codes = time.monotonic() + self._options.seconds, list[int]()
        while (left_s := ends_s - time.monotonic()) > 0 and self._serve.alive:
            if codes:
                time.sleep(min(left_s, _PUBLISH_EVERY_S))
            codes.append(self._publish(access, len(codes)))
        return codes

    def _publish(self, access: Mapping[str, str], number: int) -> int:
        value = {
            "source": "door", "id": f"p{number}", "time_ms": time.time_ns() // 1_000_000, "job_id": f"published-{number}", "type": "queued",
        }  # fmt: skip
        self._file.write_text(json.dumps({"topic": "jobs", "value": value}) + "\n", encoding="utf-8")
        env = {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}
        command = [sys.executable, "-m", "streams.cli.main", "publish", str(self._file)]
        try:
            done = subprocess.run(
                command, env={**env, **access}, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_PUBLISH_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1
        if done.returncode:
            say(f"publish ended with {done.returncode}: {done.stderr[-500:]}")
        return done.returncode


def _killed(crews: Sequence[Crew]) -> None:
    for crew in crews:
        crew.kill()


def _answers(seen: Sequence[Seen], what: str) -> Spread:
    asked = [each for each in seen if each.what == what and not _is_fresh(each)]
    return spread_of(len(asked), [each.ms for each in asked if each.outcome == "202"])


def _is_fresh(each: Seen) -> bool:
    """Whether the run ended too early to say anything of it."""
    return each.outcome == "unanswered" and each.ms < WITHIN_S * 1_000


def _outcomes(seen: Sequence[Seen], what: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in seen:
        if each.what == what:
            found[each.outcome] = found.get(each.outcome, 0) + 1
    return found


def verdicts(figures: Mapping[str, Any]) -> list[Verdict]:
    """Hold the figures to every limit; what was not measured is not within it."""
    codes: list[int] = figures["published"]
    return [
        Verdict("serve lives", "the same process", "it does" if figures["alive"] else "it ended", figures["alive"]),
        *(
            Verdict(
                f"{what}: 202 within {WITHIN_S:g} s", f">= {SHARE:.0%}", f"{each.right} of {each.asked}, {in_ms(each.p99_ms)} p99",
                each.asked > 0 and each.right >= SHARE * each.asked,
            )
            for what, each in figures["senders"].items()
        ),
        Verdict("publish", "each ends with 0", f"{codes.count(0)} of {len(codes)}", bool(codes) and not any(codes)),
        Verdict("serve ends at SIGTERM", "with 0", f"with {figures['stop_code']}", figures["stop_code"] == 0),
    ]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Attack and print; 0 every limit holds, 1 one does not, or it could not be measured."""
    parser = argparse.ArgumentParser(prog="abuse_doors", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long it is attacked once it is ready"
    )
    parser.add_argument(
        "--silent", type=int, default=500, help="connections at each of webhooks, events and log"
    )
    parser.add_argument(
        "--stopping", type=int, default=16, help="bodies of 4 MiB that stop before their last byte"
    )
    parser.add_argument("--json", dest="out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="trainfare-doors-") as directory:
        try:
            figures = Doors(options, Path(directory)).go()
        except WorldError as fault:
            sys.stderr.write(f"abuse_doors: {fault}\n")
            return 1
    judged = verdicts(figures)
    shown = {**figures, "senders": {name: each._asdict() for name, each in figures["senders"].items()}}
    body = json.dumps({**shown, "verdicts": [each._asdict() for each in judged]}, indent=2, default=str)
    sys.stdout.write(body + "\n")
    if options.out is not None:
        options.out.write_text(body + "\n", encoding="utf-8")
    for each in judged:
        if not each.ok:
            sys.stderr.write(f"abuse_doors: {each.name}: asked {each.limit}, found {each.found}\n")
    return int(not all(each.ok for each in judged))


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
