"""Rules about jobs that are judged on the stored ledger, through `trainfare replay`, against the plain judge.

Each log has teams with jobs of their own kinds, some far larger than others, and launchers that try again.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.oracle.ledger_rules_jobs import Fired, judge_log
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line

BEGIN_MS = 1_780_272_000_000  # 2026-06-01 00:00:00 UTC
JOBS = 140
RULES = ("oversized", "retry_overhead", "unusual_length")
KINDS = (
    # team, experiment, name, GPUs
    ("vision", "", "test", (1, 1, 2)),
    ("vision", "sft", "job", (4,)),
    ("vision", "", "train", (1, 2, 4, 8, 16, 32)),
    ("nlp", "", "sweep/trial", (2, 2, 2, 3)),
    ("", "", "adhoc", (1, 4)),
)


class Log:
    """Events of jobs, put into the order of time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.events: list[tuple[str, dict[str, Any]]] = []
        for sku, component, usd, per in (
            ("gpu", "gpu", "2.35", "gpu_hour"),
            ("cpu", "compute", "0.041", "vcpu_hour"),
            ("net", "network", "0.5", "gb"),
        ):
            self.say("prices", BEGIN_MS, sku=sku, component=component, usd=usd, per=per, effective_ms=0)
        for number in range(JOBS):
            self.job(number)
        self.kinds(random.Random(f"kinds {seed}"))
        self.pauses(random.Random(f"pauses {seed}"))
        self.runs(random.Random(f"runs {seed}"))

    def kinds(self, rng: random.Random) -> None:
        """A team of jobs that have no name in common, two that run for long, and a job that comes each day."""
        for number in range(24):
            begin_ms = BEGIN_MS + rng.randrange(6 * HOUR_MS)
            self.run(
                "ops", "abcdefghijklmnopqrstuvwx"[number], begin_ms, rng.randrange(1, 40), rng.choice((1, 2))
            )
        self.run("ops", "long", BEGIN_MS + 7 * HOUR_MS, 300, 2)
        self.run("ops", "long-and-large", BEGIN_MS + 7 * HOUR_MS, 300, rng.choice((4, 5, 8, 9, 64)))
        for day in range(4):
            at_ms = BEGIN_MS + (24 * (day - 3) + 3) * HOUR_MS + rng.randrange(2 * HOUR_MS)
            self.run("ops", f"nightly-{day}", at_ms, 30, 4 if day < 3 else rng.choice((4, 19, 20, 64)))
            usd = rng.choice((40, 75.2, 78.3, 78.4, 100))  # 40 GPUs are $94 an hour
            more = {"expected_usd_per_hour": str(usd)} if day == 3 else {}
            self.run("ops", f"announced-{day}", at_ms, 30, 4 if day < 3 else 40, **more)

    def pauses(self, rng: random.Random) -> None:
        """Jobs that are preempted and wait for hours, some for more than a day; of one name, and some completed before."""
        for number in range(20):
            self.run("spot", f"short-{number}", BEGIN_MS - 3 * HOUR_MS, 20, 4)
        for number in range(20, 26):
            about = {"job_id": f"short-{number}", "gpu_count": 4, "team": "spot", "owner": "ada"}
            at_ms = BEGIN_MS + rng.randrange(HOUR_MS)
            for attempt in range(1, 7):
                self.say("jobs", at_ms, type="started", attempt=attempt, **about)
                if rng.random() < 0.4:
                    self.say("jobs", at_ms + 20 * MINUTE_MS, type="checkpointed", attempt=attempt, **about)
                at_ms += rng.randrange(30, rng.choice((60, 200))) * MINUTE_MS
                end = rng.choice(("preempted", "preempted", "preempted", "failed", "completed"))
                self.say("jobs", at_ms, type=end, attempt=attempt, **about)
                at_ms += rng.choice((1, 1, 5, 20, 23, 24, 25, 26, 40)) * HOUR_MS - rng.randrange(HOUR_MS)

    def runs(self, rng: random.Random) -> None:
        """Runs of which each submission is another job: by name or by `run_id`, a few at one time with another, some in a loop."""
        for run in range(9):
            about: dict[str, Any] = {"gpu_count": 8, "team": "runs", "owner": "ada", "work_dir": f"/w/{run}"}
            about |= {"run_id": f"r{run}"} if run % 3 == 0 else {}
            at_ms = BEGIN_MS + rng.randrange(4 * HOUR_MS)
            for number in range(rng.randrange(4, 9)):
                job_id = f"again-{run}.{number}"
                self.say("jobs", at_ms, type="started", job_id=job_id, **about)
                length_ms = rng.randrange(5, rng.choice((20, 60, 150))) * MINUTE_MS
                end = rng.choice(("failed", "failed", "failed", "preempted", "preempted", "completed"))
                self.say("jobs", at_ms + length_ms, type=end, job_id=job_id)
                is_beside = rng.random() < 0.1
                gap_ms = rng.choice((1, 1, 10, 90, 200, 1500)) * MINUTE_MS
                at_ms += length_ms // 2 if is_beside else length_ms + gap_ms

    def run(self, team: str, job_id: str, at_ms: int, minutes: int, gpus: int, **more: Any) -> None:
        said: dict[str, Any] = {"job_id": job_id, "gpu_count": gpus, "team": team, "owner": "ada", **more}
        self.say("jobs", at_ms, type="started", **said)
        self.say("jobs", at_ms + minutes * MINUTE_MS, type="completed", job_id=job_id)

    def say(self, topic: str, time_ms: int, **value: Any) -> None:
        said = {"source": "t", "id": str(len(self.events)), "time_ms": time_ms, **value}
        self.events.append((topic, said))

    def job(self, number: int) -> None:
        rng = self.rng
        team, experiment, name, gpus = rng.choice(KINDS)
        job_id = f"{name}-{number}" if name != "train" else f"{name}-{rng.getrandbits(40):x}0.{number}"
        held = rng.choice(gpus) * (rng.choice((8, 40, 64)) if rng.random() < 0.15 else 1)
        about = {"gpu_count": held, "cpu_count": rng.choice((0, 8)), "owner": "ada"}
        about |= {"team": team} if team else {}
        about |= {"experiment": experiment} if experiment else {}
        at_ms = BEGIN_MS + rng.randrange(14 * HOUR_MS)
        if rng.random() < 0.1:
            at_ms = at_ms // HOUR_MS * HOUR_MS + 54 * MINUTE_MS  # judged at a whole hour
        for attempt in range(1, rng.choice((2, 2, 2, 3, 6, 9))):
            said = {"job_id": job_id, "attempt": attempt}
            if rng.random() < 0.4:
                self.say("jobs", at_ms, type="allocated", **said, **about)
                at_ms += rng.randrange(1, 10 * MINUTE_MS)
            self.say("jobs", at_ms, type="started", **said, **about)
            for _ in range(rng.randrange(3)):
                at_ms += rng.randrange(20 * MINUTE_MS)
                kind = rng.choice(("checkpointed", "checkpointed", "heartbeat"))
                self.say("jobs", at_ms, type=kind, **said)
            if rng.random() < 0.2:
                self.say(
                    "network", at_ms, path="internet", direction="egress", bytes=rng.randrange(10**10),
                    interval_ms=60_000, **said,
                )  # fmt: skip
            at_ms += rng.randrange(rng.choice((4, 40, 90, 90)) * MINUTE_MS)
            at_ms += 8 * HOUR_MS if rng.random() < 0.02 else 0
            end = rng.choice(("failed", "failed", "preempted", "completed", ""))
            if end:
                self.say("jobs", at_ms, type=end, **said)
            if end == "completed" and rng.random() < 0.7:
                return
            at_ms += rng.randrange(1, 8 * MINUTE_MS)

    def lines(self) -> list[Line]:
        return [
            Line(topic, value) for topic, value in sorted(self.events, key=lambda each: each[1]["time_ms"])
        ]


def replayed(lines: list[Line], directory: Path) -> list[Fired]:
    log = directory / "log.jsonl"
    log.write_text("".join(json.dumps({"topic": x.topic, "value": x.value}) + "\n" for x in lines))
    done = trainfare("replay", log, "--data", directory / "data")
    assert done.code == 0, done.err[-3000:]
    store = ClickHouseStore(Embedded(data_dir=directory / "data", database="trainfare"))
    try:
        rows = [row for row in store.select(ALERTS).to_pylist() if row["rule"] in RULES]
    finally:
        store.close()
    return sorted(
        Fired(row["rule"], row["subject_name"], _ms(row["started"]), _ms(row["resolved"]), int(row["cost_usd"].scaleb(9)))
        for row in rows
    )  # fmt: skip


def _ms(at: Any) -> Any:
    return None if at is None else round(at.timestamp() * 1000)


@pytest.mark.parametrize(
    "seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in (5, 6, 7, 8, 9, 11, 12, 14))]
)
def test_the_plain_judge_agrees_on_every_alert(seed: int, tmp_path: Path) -> None:
    lines = Log(seed).lines()
    want = judge_log(lines)
    assert {each.rule for each in want} == set(RULES)
    assert any(each.job_id.startswith("again") for each in want if each.rule == "retry_overhead")
    assert replayed(lines, tmp_path) == want
