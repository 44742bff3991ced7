"""`trainfare idle` on a replayed log: figures, findings and refusals, each as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import trainfare

T0_MS = 1_772_323_200_000  # 2026-03-01 00:00:00 UTC
HOUR_MS = 3_600_000


def event(topic: str, hour: float, **value: object) -> str:
    """Return a line of a file."""
    at_ms = T0_MS + round(hour * HOUR_MS)
    body = {"source": "t", "id": f"{topic}-{hour}-{value.get('node')}", "time_ms": at_ms, **value}
    return json.dumps({"topic": topic, "value": body}) + "\n"


#: Two nodes of two GPUs at $3 and one without a GPU at $0.60 an hour, for 26 hours. One job has a GPU of n1 for two hours;
#: work without a job was seen on n1 for a minute. Nothing runs on n2.
LINES = [
    event("prices", 0, sku="gpu", component="gpu", usd="3", per="gpu_hour", effective_ms=0),
    event("prices", 0, sku="cpu", component="compute", usd="0.6", per="instance_hour", effective_ms=0),
    event("nodes", 0, node="n1", type="provisioned", gpu_count=2, team="red", gpu_type="H100", cluster="c"),
    event("nodes", 0, node="n2", type="provisioned", gpu_count=2, gpu_type="H100", cluster="c"),
    event("nodes", 0, node="c1", type="provisioned", team="red"),
    event("jobs", 1, job_id="a", type="started", nodes={"n1": 1}),
    event("gpu", 1.5, node="n1", gpus=["1"], interval_ms=60_000, util_ratio=[0.5]),
    event("jobs", 3, job_id="a", type="completed"),
    event("jobs", 4, job_id="b", type="started", nodes={"c1": 0}, instance_count=1),
    event("jobs", 5, job_id="b", type="completed"),
    *(event("nodes", 26, node=node, type="terminated") for node in ("n1", "n2", "c1")),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("idle")
    (root / "events.jsonl").write_text("".join(LINES))
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter"


def asked(data: Path, *words: object) -> list[dict[str, object]]:
    done = trainfare("idle", *words, "--data", data, "--format", "json")
    assert (done.code, done.err) == (0, ""), done.err
    found: list[dict[str, object]] = json.loads(done.out)
    return found


def test_idle_by_node_is_cost_less_jobs(data: Path) -> None:
    found = asked(data, "--by", "node")
    figures = [
        (
            row["node"],
            *(float(str(row[f"{kind}_cost_usd"])) for kind in ("node", "job", "idle", "unattributed")),
        )
        for row in found
    ]
    # Half of a minute of one GPU of two at $6 an hour for both.
    assert figures == [("n2", 156, 0, 156, 0), ("n1", 156, 6, 150, 0.025), ("c1", 15.6, 0.6, 15, 0)]
    assert {row["paid_node_h"] for row in found} == {"26.000"}


def test_idle_by_team_and_day(data: Path) -> None:
    found = asked(data, "--per", "day", "--to", "2026-03-02")
    cells = [(row["period_start"], row["team"], float(str(row["idle_cost_usd"]))) for row in found]
    assert cells == [("2026-03-01", "red", 151.8), ("2026-03-01", "", 144)]


def test_findings_name_the_forgotten_node_and_use_without_a_job(data: Path) -> None:
    found = asked(data, "--findings")
    named = {(row["finding"], row["name"]): row for row in found}
    assert float(str(named["forgotten_node", "n2"]["cost_usd"])) == 144
    assert float(str(named["unattributed_use", "n1"]["cost_usd"])) == 0.025
    assert ("forgotten_node", "n1") not in named
    assert ("node_type_half_full", "H100") in named
    assert len(asked(data, "--findings", "--limit", 1)) == 1


@pytest.mark.parametrize("words", [(), ("--findings",)])
def test_a_store_without_node_events_says_what_is_missing(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(LINES[0])
    assert trainfare("replay", tmp_path / "events.jsonl", "--data", tmp_path / "meter").code == 0
    done = trainfare("idle", *words, "--data", tmp_path / "meter")
    assert done.code == 0
    assert (
        "no node events in this store: idle cost needs them (docs/usage_events.md#nodes)" in done.one_line()
    )


def test_help_is_for_users() -> None:
    assert "Raises" not in trainfare("idle", "--help").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "soon"), "from: 'soon' is no date"),
        (("--from", "2026-03-02", "--to", "2026-03-01"), "--from: must be before --to"),
        (("--by", "moon"), "moon"),
    ],
)
def test_wrong_use_is_one_line(data: Path, words: tuple[str, ...], says: str) -> None:
    done = trainfare("idle", *words, "--data", data)
    assert (done.code, done.out) == (2, "")
    assert says in done.one_line()
