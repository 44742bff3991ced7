"""Samples that name a node and no job: given to the job that held the GPU then, by the file of allocations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streams.collect.allocations import Allocation
from streams.collect.collector import SourceUnavailableError
from streams.collect.kafka.collector import KafkaRelay
from streams.collect.kafka.options import Options
from tests.cli.command import trainfare
from tests.collect.kafka.world import MemoryTopics

AT_MS = 1_780_308_000_000
FIELDS = {
    "node": "n",
    "job_id": "job",
    "time_ms": "at",
    "interval_ms": "every",
    "gpus": "gpus",
    "util_ratio": "busy",
}
RULE = {"name": "s", "topic": "t", "target": "gpu", "fields": FIELDS}
RECORD = {"n": "n1", "at": AT_MS, "every": 10_000, "gpus": ["0", "1", "2"], "busy": [0.5, 0.25, 0.125]}
HELD = [
    Allocation("n1", "run-6", gpus=["0", "1"], until_ms=AT_MS - 3_600_000),
    Allocation("n1", "run-7", 2, gpus=["0"], from_ms=AT_MS - 3_600_000, until_ms=AT_MS),
    Allocation("n1", "run-8", gpus=["1"], from_ms=AT_MS - 3_600_000),
    Allocation("n1", "run-9", gpus=["0"], from_ms=AT_MS),
    Allocation("n2", "run-5"),
]


def file_of(folder: Path, held: list[Allocation]) -> Path:
    path = folder / "allocations.json"
    path.write_bytes(msgspec.json.encode({"allocations": held}))
    return path


def samples(folder: Path, record: dict[str, Any], held: list[Allocation] = HELD) -> list[dict[str, Any]]:
    log = MemoryTopics()
    log.append("t", 0, json.dumps(record).encode())
    relay = KafkaRelay(
        Options.model_validate({"rules": [RULE], "allocations_file": file_of(folder, held)}), log
    )
    return [dict(event.value) for batch in relay.poll(None, AT_MS) for event in batch.events]


def test_each_gpu_is_given_to_the_job_that_held_it_then(tmp_path: Path) -> None:
    found = {each.get("job_id"): each for each in samples(tmp_path, RECORD)}
    assert found.keys() == {"run-7", "run-8", None}
    assert (found["run-7"]["gpus"], found["run-7"]["util_ratio"], found["run-7"]["attempt"]) == (
        ["0"],
        [0.5],
        2,
    )
    assert (found["run-8"]["gpus"], found["run-8"]["util_ratio"], found["run-8"]["attempt"]) == (
        ["1"],
        [0.25],
        1,
    )
    assert (found[None]["gpus"], found[None]["util_ratio"]) == (["2"], [0.125])


def test_a_sample_that_comes_a_day_late_is_not_todays_holders(tmp_path: Path) -> None:
    early = {**RECORD, "at": AT_MS - 7_200_000}
    assert [(each["job_id"], each["gpus"]) for each in samples(tmp_path, early) if "job_id" in each] == [
        ("run-6", ["0", "1"])
    ]


def test_who_holds_a_whole_node_has_all_of_its_gpus(tmp_path: Path) -> None:
    (found,) = samples(tmp_path, {**RECORD, "n": "n2"})
    assert (found["job_id"], found["gpus"], found["util_ratio"]) == ("run-5", RECORD["gpus"], RECORD["busy"])


def test_a_job_that_the_record_names_stays(tmp_path: Path) -> None:
    (found,) = samples(tmp_path, {**RECORD, "job": "mine"})
    assert found["job_id"] == "mine"


def test_without_a_holder_it_is_nobodys(tmp_path: Path) -> None:
    (found,) = samples(tmp_path, RECORD, [])
    assert "job_id" not in found


def test_a_file_that_cannot_be_read_is_waited_for(tmp_path: Path) -> None:
    relay = KafkaRelay(
        Options.model_validate({"rules": [RULE], "allocations_file": tmp_path / "none.json"}), MemoryTopics()
    )
    with pytest.raises(SourceUnavailableError, match=r"none\.json"):
        list(relay.poll(None, AT_MS))


def test_files_are_joined_too(tmp_path: Path) -> None:
    held = file_of(tmp_path, HELD)
    rule = {name: value for name, value in RULE.items() if name not in {"topic", "fields"}}
    config = tmp_path / "collect.toml"
    fields = "".join(f'{name} = "{path}"\n' for name, path in FIELDS.items())
    config.write_text(
        f'[json-files]\nallocations_file = "{held}"\n[[json-files.rules]]\nname = "{rule["name"]}"\ntarget = "gpu"\n'
        f"[json-files.rules.fields]\n{fields}"
    )
    log = tmp_path / "samples.jsonl"
    log.write_text(json.dumps(RECORD))
    for how in (("--files", log, "--dry-run"), ("--check", log)):
        done = trainfare("collect", "json-files", "--config", config, *how)
        assert done.code == 0, done.err
        jobs = [json.loads(line)["value"].get("job_id") for line in done.out.splitlines()]
        assert jobs == ["run-7", "run-8", None]
