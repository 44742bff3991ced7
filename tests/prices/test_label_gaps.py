"""A label that nobody priced, where its key has prices, is said with what to do; a plan is estimated with its labels."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare

T0_MS = 1_788_220_800_000
HOUR_MS = 3_600_000
SAID = {
    "data_class=PII": "of 2 jobs (c) has no price, and data_class=pii has one: spell it so where the job is submitted, or load a price for it",
    "data_class=public": "of 1 job (d) has no price, and data_class=phi, data_class=pii of the same key have one: load a price for it, of 0 if it costs nothing",
    "Data_Class=pii": "of 1 job (e) has no price, and data_class=pii has one: spell it so where the job is submitted, or load a price for it",
}


def event(topic: str, at_ms: int, **value: object) -> str:
    body = {"source": "t", "id": f"{at_ms}-{value}", "time_ms": at_ms, **value}
    return json.dumps({"topic": topic, "value": body}) + "\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("labels")
    gpu: dict[str, Any] = {"component": "gpu", "per": "gpu_hour", "effective_ms": 0}
    compliance = {"component": "compliance", "effective_ms": 0}
    lines = [
        event("prices", T0_MS, sku="g", usd="2", gpu_type="A", **gpu),
        event("prices", T0_MS, sku="iso", usd="0.5", per="gpu_hour", label="data_class=pii", **compliance),
        event("prices", T0_MS, sku="scan", usd="3", per="job_hour", label="data_class=pii", **compliance),
        event("prices", T0_MS, sku="phi", usd="9", per="job_hour", label="data_class=phi", **compliance),
    ]
    labels = {
        "a": {"data_class": "pii", "tier": "gold"},
        "b": {"data_class": "PII"},
        "c": {"data_class": "PII"},
        "d": {"data_class": "public"},
        "e": {"Data_Class": "pii"},
        "f": {},
    }
    for place, (job, named) in enumerate(labels.items()):
        lines.append(
            event("jobs", T0_MS + place, job_id=job, type="started", gpu_type="A", gpu_count=1, labels=named)
        )
    lines += [event("jobs", T0_MS + HOUR_MS, job_id=job, type="completed") for job in labels]
    (root / "events.jsonl").write_text("".join(lines))
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter"


@pytest.mark.parametrize("words", [("prices", "show"), ("costs", "--metric", "m1")])
def test_labels_without_a_price_are_said_with_the_remedy(words: tuple[str, ...], data: Path) -> None:
    done = trainfare(*words, "--data", data)
    assert done.code == 0
    found = done.err.splitlines()
    assert sorted(found) == sorted(f"trainfare: label {label} {said}" for label, said in SAID.items())
    assert found[0].startswith("trainfare: label data_class=PII")  # the most frequent first


def costs(data: Path, *words: object) -> tuple[dict[str, Decimal], str]:
    """By component, of a plan of two GPUs for an hour."""
    done = trainfare(
        "estimate",
        "--gpus",
        "2",
        "--hours",
        "1",
        "--gpu-type",
        "A",
        *words,
        "--data",
        data,
        "--format",
        "json",
    )
    assert done.code == 0, done.err
    found: dict[str, Decimal] = {}
    (case,) = (each for each in json.loads(done.out)["cases"] if each["case"] == "planned")
    for part in case["components"]:
        found[part["component"]] = found.get(part["component"], Decimal(0)) + Decimal(part["cost_usd"])
    return found, done.err


def test_a_plan_pays_for_its_labels(data: Path) -> None:
    """Two GPU-hours at $0.50, and a job-hour at $3."""
    bare, _ = costs(data)
    assert bare == {"gpu": Decimal(4)}
    found, said = costs(data, "--label", "data_class=pii", "--label", "tier=gold")
    assert found == {"gpu": Decimal(4), "compliance": Decimal(4)}
    assert "label" not in said
    found, said = costs(data, "--label", "data_class=PII")
    assert found == bare
    assert "note: label data_class=PII has no price, and data_class=pii has one" in said


def test_a_plan_like_a_job_has_its_labels_unless_it_says_otherwise(data: Path) -> None:
    assert costs(data, "--like", "a")[0]["compliance"] == 4
    assert costs(data, "--like", "a", "--label", "data_class=phi")[0]["compliance"] == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--label", "pii"), "--label pii: expected KEY=VALUE"),
        (("--label", "a=b", "--label", "a=c"), "--label a=c: a is given twice"),
        (("--of", "a", "--label", "a=b"), "--of JOB takes the job as it ran"),
    ],
)
def test_a_label_that_is_none_is_refused(words: tuple[str, ...], said: str, data: Path) -> None:
    done = trainfare("estimate", *(() if "--of" in words else ("--gpus", "1")), *words, "--data", data)
    assert done.code == 2
    assert said in done.err
