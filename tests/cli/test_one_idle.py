"""One figure of idle cost, whoever is asked: `idle`, `costs --metric m3`, `chargeback`, the API, the views."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from sinks.meta import MINUTES_KEPT_FROM
from tests.cli.command import trainfare
from tests.sinks.stores import embedded

T0_MS = 1_777_802_400_000  # 2026-05-03 10:00:00 UTC
HOUR_MS = 3_600_000
CENT = Decimal("0.01")


def line(topic: str, minute: int, **value: object) -> str:
    body = {
        "source": "t",
        "id": f"{topic}-{minute}-{sorted(value.items())}",
        "time_ms": T0_MS + 60_000 * minute,
        **value,
    }
    return json.dumps({"topic": topic, "value": body}) + "\n"


def fleet(*jobs: tuple[str, int, int, int], nodes: tuple[str, ...] = ("n1", "n2")) -> str:
    """Nodes of four GPUs at $1 for an hour; jobs as (node, GPUs, from, to), minutes since 10:00."""
    lines = [line("prices", 0, sku="gpu", component="gpu", usd="1", per="gpu_hour", effective_ms=0)]
    lines += [line("nodes", 0, node=node, type="provisioned", gpu_count=4) for node in nodes]
    for number, (node, gpus, start, end) in enumerate(jobs):
        lines.append(
            line("jobs", start, job_id=f"v{number}", type="started", nodes={node: gpus}, team="vision")
        )
        lines.append(line("jobs", end, job_id=f"v{number}", type="completed"))
    return "".join([*lines, *(line("nodes", 60, node=node, type="terminated") for node in nodes)])


#: Log, idle and overcommitted in dollars.
FLEETS = {
    "one node overcommitted, the other idle": (fleet(("n1", 8, 0, 60)), "4.00", "4.00"),
    "one node, first idle and then overcommitted": (fleet(("n1", 8, 30, 60), nodes=("n1",)), "2.00", "2.00"),
    "every other ten minutes": (
        fleet(("n1", 8, 0, 10), ("n1", 8, 20, 30), ("n1", 8, 40, 50), nodes=("n1",)), "2.00", "2.00"
    ),
    "two jobs share more than there is": (fleet(("n1", 3, 0, 60), ("n1", 3, 0, 30), nodes=("n1",)), "0.50", "1.00"),
    "all of it held": (fleet(("n1", 4, 0, 60), nodes=("n1",)), "0.00", "0.00"),
}  # fmt: skip


@pytest.fixture(scope="module", params=FLEETS)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Decimal, Decimal]:
    log, idle, over = FLEETS[request.param]
    root = tmp_path_factory.mktemp("case")
    (root / "events.jsonl").write_text(log)
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter")
    assert done.code == 0, done.err
    return root / "meter", Decimal(idle), Decimal(over)


def asked(*words: object) -> list[dict[str, str]]:
    done = trainfare(*words, "--format", "json")
    assert done.code == 0, done.err
    found: list[dict[str, str]] = json.loads(done.out)
    return found


def cents(rows: list[dict[str, str]], column: str) -> Decimal:
    return sum((Decimal(row[column]) for row in rows), Decimal(0)).quantize(CENT)


def test_every_command_says_the_same(case: tuple[Path, Decimal, Decimal]) -> None:
    data, idle, over = case
    figures = {}
    for words in (("idle",), ("idle", "--by", "node", "--per", "hour"), ("costs", "--metric", "m3"), ("costs", "--metric", "m3", "--by", "node")):  # fmt: skip
        rows = asked(*words, "--data", data)
        figures[words] = [cents(rows, f"{name}_cost_usd") for name in ("idle", "overcommitted")]
    for view in ("node_balance", "node_hour_balance", "idle_hours", "m3_unallocated_ratio"):
        rows = asked("sql", f"SELECT idle_cost_usd, overcommitted_cost_usd FROM {view}", "--data", data)
        figures[view,] = [cents(rows, f"{name}_cost_usd") for name in ("idle", "overcommitted")]
    assert set(map(tuple, figures.values())) == {(idle, over)}, figures


def test_chargeback_has_the_same_idle_cost(case: tuple[Path, Decimal, Decimal]) -> None:
    data, idle, over = case
    done = trainfare("chargeback", "--month", "2026-05", "--data", data, "--format", "json")
    assert done.code == 0, done.err
    rows = json.loads(done.out)["rows"]
    assert (cents(rows, "idle_usd"), cents(rows, "overcommitted_cost_usd")) == (idle, over)


def test_months_whose_minutes_were_dropped_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(fleet(("n1", 4, 0, 30)))
    data = tmp_path / "meter"
    assert trainfare("replay", tmp_path / "events.jsonl", "--data", data).code == 0
    questions: list[tuple[str, ...]] = [("idle",), ("costs", "--metric", "m3")]
    for words in questions:
        assert trainfare(*words, "--data", data).err == ""
    with embedded(data) as store:
        store.meta.put(MINUTES_KEPT_FROM, "202606")
    questions.append(("costs", "--metric", "m3", "--from", "2026-05-01", "--to", "2026-06-01"))
    for words in questions:
        done = trainfare(*words, "--data", data)
        assert done.code == 0
        assert (
            "2 hours of nodes before 2026-06 are left out: the minutes of their jobs were dropped" in done.err
        )
    assert trainfare("idle", "--from", "2026-06-01", "--data", data).err == ""
