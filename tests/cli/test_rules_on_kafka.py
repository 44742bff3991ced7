"""Rules published to a real broker and read back from it: all, one job's, without those that a file lacks."""

from __future__ import annotations

import csv
import io
import json
import uuid
from pathlib import Path

import pytest

from tests.cli.command import Done, trainfare
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka

RULES = """
[[rule]]
name = "vision-limit"
rule = "team_burn"
match = { team = "vision" }
thresholds = { usd_per_hour = 400 }

[[rule]]
name = "waste"
rule = "retry_overhead"
thresholds = { least_usd = 25 }

[[rule]]
name = "spikes"
rule = "burn_fast"
match = { team = "nlp" }
severity = "ticket"
"""
ALL = [
    ("burn_fast", "team=nlp", "spikes"),
    ("retry_overhead", "every job", "waste"),
    ("team_burn", "team=vision", "vision-limit"),
]


@pytest.fixture(scope="module")
def env() -> dict[str, str]:
    """Settings for topics of this module alone."""
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    done = trainfare("topics", "create", env=env)
    assert done.code == 0, done.err
    return env


def set_by_records(done: Done) -> list[tuple[str, str, str]]:
    """(rule, for, set_by) of what the defaults do not set, in order."""
    assert (done.code, done.err) == (0, "")
    rows = csv.DictReader(io.StringIO(done.out))
    return sorted((row["rule"], row["for"], row["set_by"]) for row in rows if row["set_by"] != "default")


def test_rules_are_published_shown_and_removed(env: dict[str, str], tmp_path: Path) -> None:
    file, log, data = tmp_path / "rules.toml", tmp_path / "log.jsonl", tmp_path / "meter"
    file.write_text(RULES)

    def show(*more: object) -> list[tuple[str, str, str]]:
        return set_by_records(trainfare("rules", "show", "--format", "csv", *more, env=env))

    def publish(*more: str) -> list[str]:
        done = trainfare("rules", "publish", file, *more, env=env)
        assert (done.code, done.err) == (0, "")
        return done.out.splitlines()

    assert show() == []
    assert publish("--dry-run")[-1] == f"3 rules in {file}; nothing was published"
    assert show() == []
    assert publish()[-1].startswith("3 records acknowledged by ")
    assert show() == ALL

    started = {"source": "t", "id": "1", "time_ms": 1_780_308_000_000, "type": "started", "gpu_count": 1}
    log.write_text(
        json.dumps({"topic": "jobs", "value": {**started, "job_id": "j", "team": "vision"}}) + "\n"
    )
    assert trainfare("replay", log, "--data", data).code == 0
    assert show("--job", "j", "--data", data) == [("retry_overhead", "every job", "waste"), ALL[2]]

    file.write_text(RULES[: RULES.index('[[rule]]\nname = "waste"')])
    removed = ["rule/waste: removed", "rule/spikes: removed"]
    assert publish("--prune", "--dry-run")[-3:] == [*removed, f"1 rule in {file}; nothing was published"]
    assert show() == ALL
    pruned = publish("--prune")
    assert pruned[-3:-1] == removed
    assert pruned[-1].startswith("3 records acknowledged by ")
    assert show() == [ALL[2]]
