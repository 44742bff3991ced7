"""The maps in examples/maps: what their samples make, and what that costs."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams.collect.collector import CollectedEvent
from streams.collect.kafka.check import check_sample
from tests.cli.command import trainfare
from tests.collect.kafka.world import MAPS, options
from tests.harness import meter
from tests.oracle.model import Line
from tests.source_cases import source_case


def sample_events(name: str) -> list[CollectedEvent]:
    return check_sample(options(name), MAPS / f"{name}.sample.jsonl")


def at_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def price(gpu_type: str) -> Line:
    """A dollar for 1,000 GPU-seconds: a million nano-dollars for each."""
    return Line(
        "prices",
        {
            "source": "test",
            "id": f"gpu.{gpu_type}",
            "sku": f"gpu.{gpu_type}",
            "time_ms": at_ms("2026-06-01T00:00:00"),
            "effective_ms": at_ms("2026-06-01T00:00:00"),
            "component": "gpu",
            "usd": "3.6",
            "per": "gpu_hour",
            **({"gpu_type": gpu_type} if gpu_type else {}),
        },
    )


def test_jobcomp_costs_are_the_seconds_of_its_records_times_gpus_times_the_price() -> None:
    wanted: Counter[str] = Counter()
    for record in map(json.loads, (MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines()):
        gpus = re.search(r"gres/gpu=(\d+)", record["tres_alloc"])
        job_id = f"{record['array_job_id']}_0" if "array_job_id" in record else str(record["jobid"])
        if gpus:
            wanted[job_id] += int(gpus[1]) * record["elapsed"] * 1_000_000
    assert wanted["102"] == 16 * (600 + 1807) * 1_000_000  # the preempted attempt and the next one

    events = [Line(topic, dict(value)) for topic, value in sample_events("jobcomp")]
    tables = meter([*map(price, ("H100", "A100", "")), *events], as_of_ms=at_ms("2026-06-01T12:00:00"))
    found: Counter[str] = Counter()
    for key, row in tables.ledger.items():
        found[key.job_id] += row.cost_nano
    assert found == wanted
    assert not tables.dead


def test_jobcomp_names_states_as_the_meter_does() -> None:
    ends = [
        (value["job_id"], value["type"], value.get("reason"))
        for _, value in sample_events("jobcomp")
        if value["id"].startswith("ended/")
    ]
    assert ends == [
        ("101", "completed", None),
        ("102", "preempted", "preemption"),
        ("102", "completed", None),
        ("104_0", "failed", "out_of_memory"),
        ("107", "preempted", "unknown"),
    ]


def started_gpus(tmp_path: Path, tres: str) -> tuple[object, object]:
    record = json.loads((MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines()[0])
    sample = tmp_path / "sample.jsonl"
    sample.write_text(json.dumps(record | {"tres_alloc": tres}))
    events = [value for _, value in check_sample(options("jobcomp"), sample) if value["type"] == "started"]
    return events[0]["gpu_count"], events[0].get("gpu_type")


@pytest.mark.parametrize(
    ("tres", "gpus", "type_"),
    [
        ("cpu=16,gres/gpu:h100=2", 2, "H100"),
        ("cpu=16, gres/gpu=2, gres/gpu:h100=2", 2, "H100"),
        ("gres/gpu:a100=1,gres/gpu:h100=2", 3, None),
        ("gres/gpu=4", 4, None),
    ],
)
def test_jobcomp_counts_gpus_of_sites_that_track_them_by_type(
    tmp_path: Path, tres: str, gpus: int, type_: str | None
) -> None:
    assert started_gpus(tmp_path, tres) == (gpus, type_)


def test_jobcomp_of_a_real_site_that_tracks_gpus_by_type() -> None:
    sample = source_case("23-jobcomp-typed") / "sample.jsonl"
    events = {value["type"]: value for _, value in check_sample(options("jobcomp"), sample)}
    assert events["started"]["gpu_count"] == 2
    assert events["completed"]["time_ms"] - events["started"]["time_ms"] == 3_600_000


def test_custom_json_with_units_lists_and_conditions() -> None:
    started, sample, other, egress, ended = (value for _, value in sample_events("custom"))
    assert started == {
        "source": "platform",
        "id": "run/r-17/1/TRAIN/1780308000.25",
        "time_ms": 1_780_308_000_250,
        "cloud": "aws",
        "region": "us-east-1",
        "job_id": "r-17",
        "attempt": 1,
        "type": "started",
        "owner": "ada",
        "team": "vision",
        "gpu_count": 16,
        "gpu_type": "H100",
        "memory_gib": 1536,
    }
    assert (sample["gpus"], sample["util_ratio"]) == (["0", "1"], [0.875, 0.5])
    assert sample["memory_used_mib"] == [61_440, 61_952]
    assert sample["time_ms"] == other["time_ms"] == at_ms("2026-06-01T10:00:15")
    assert (egress["bytes"], egress["interval_ms"]) == (3 * 2**29, 300_000)
    assert (ended["type"], "gpu_count" in ended) == ("completed", False)


@pytest.mark.parametrize("name", ["jobcomp", "custom"])
def test_the_command_prints_the_events_of_a_sample(name: str) -> None:
    done = trainfare(
        "collect", "kafka", "--check", MAPS / f"{name}.sample.jsonl", "--config", MAPS / f"{name}.toml"
    )
    assert (done.code, done.err) == (0, "")
    printed: list[Any] = [json.loads(line) for line in done.out.splitlines()]
    assert printed == [{"topic": topic, "value": value} for topic, value in sample_events(name)]
