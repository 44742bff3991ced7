"""Labelled traces: the same of the same seed, as their labels say, and judged as the plain judge does."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import orjson
import pytest

from loadtest.labelled.bounds import as_table, caught_figures, clean_figures
from loadtest.labelled.incidents import KINDS
from loadtest.labelled.world import SMALL, LabelledWorld, make_world, write_world
from schemas.decode import decode
from schemas.invalid import Invalid
from streams.backtest.fired import DAY_MS, Backtest, Caught, FiredAlert
from streams.backtest.labels import Label, read_labels
from streams.backtest.run import backtested
from streams.backtest.score import KindScore
from streams.config.settings import Settings
from tests.oracle.judge import SEVERITY, judge_job
from tests.oracle.knowledge import Knowledge, in_log_time
from tests.oracle.model import Line

LATER_MS = 2**42


@pytest.fixture(scope="module")
def world() -> LabelledWorld:
    return make_world(SMALL)


def test_a_seed_makes_one_log(world: LabelledWorld, tmp_path: Path) -> None:
    names = [(tmp_path / f"{n}.jsonl.gz", tmp_path / f"{n}.csv") for n in range(2)]
    for (log, labels), one in zip(names, (world, make_world(SMALL)), strict=True):
        write_world(one, log, labels)
    assert names[0][0].read_bytes() == names[1][0].read_bytes()
    assert read_labels(names[0][1].read_bytes(), names[0][1]) == world.labels
    lines = gzip.decompress(names[0][0].read_bytes()).splitlines()
    assert len(lines) == len(world.events)
    assert [label.kind for label in world.labels] == list(KINDS)
    for line in lines:
        said = orjson.loads(line)
        assert not isinstance(decode(said["topic"], orjson.dumps(said["value"]), [], LATER_MS), Invalid)


def test_the_plain_judge_agrees_on_every_alert(world: LabelledWorld, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    write_world(world, log, tmp_path / "labels.csv")
    with backtested([log], None, Settings()) as run:
        got = {
            (x.rule, x.subject, x.started_ms, x.resolved_ms, x.severity)
            for x in run.backtest.alerts
            if x.rule in SEVERITY  # not those across jobs, which have a judge of their own
        }
    told = in_log_time([Line(topic, value) for _, topic, value in world.events])
    knowledge = Knowledge(told)
    want = {
        (x.rule, x.subject, x.started_ms, x.resolved_ms, x.severity)
        for job_id in knowledge.job_ids
        for x in judge_job(job_id, knowledge, until_ms=told[-1].log_ms)
    }
    assert got == want
    caught = {(subject, rule) for rule, subject, *_ in got}
    assert caught >= {
        ("3x-0", "burn_sustained"), ("10x-0", "burn_fast"), ("1.5x_12h-0", "burn_drift"), ("idle-0", "idle_gpus"),
        ("retry_loop-0", "retry_loop"), ("cross_region-0", "traffic"), ("spot_fallback-0", "price_basis"),
    }  # fmt: skip


def _fired(subject: str, severity: str, messages: int) -> FiredAlert:
    return FiredAlert("burn_fast", severity, "job", subject, 0, None, "", messages, 0)


def test_a_bound_that_is_missed_is_said() -> None:
    ran_ms = dict.fromkeys((f"clean-{number}" for number in range(100)), DAY_MS) | {"3x-0": DAY_MS}
    alerts = (_fired("clean-1", "page", 2), _fired("clean-2", "ticket", 1), _fired("3x-0", "page", 9))
    pages, tickets = clean_figures(Backtest("", alerts, ran_ms, 1, 0), [Label("3x-0", "3x", 0, 1)])
    assert (pages.value, pages.holds, tickets.value, tickets.holds) == (0.02, False, 0.01, True)
    assert 0 <= pages.low < 0.02 < pages.high <= 0.06
    table = as_table([pages, tickets]).splitlines()
    assert table[2].startswith("| clean pages per job-day | 2 in 100 job-days | 0.0200 |")
    assert table[2].endswith("| <= 0.0100, **missed** |")
    assert table[3].endswith("| <= 0.0300 |")


def _caught(kind: str, delays_min: Sequence[float | None], usd: int) -> KindScore:
    found = []
    for place, delay in enumerate(delays_min):
        first_ms = None if delay is None else round(delay * 60_000)
        found.append(Caught(Label(f"{kind}-{place}", kind, 0, DAY_MS), first_ms, Decimal(usd)))
    return KindScore(kind, "any rule", tuple(found))


def test_what_counts_as_caught() -> None:
    fast, late = caught_figures([_caught("10x", [4, 5, 5.1, None], 1), _caught("3x", [59, 60], 1)])[::-1]
    assert (fast.value, fast.holds, fast.counted) == (0.5, False, "2 of 4")
    assert (late.value, late.holds) == (1.0, True)
    cheap, dear = (caught_figures([_caught("retry_loop", [30, 40, None], usd)])[0].value for usd in (50, 51))
    assert cheap == pytest.approx(2 / 3)
    assert dear == pytest.approx(1 / 3)


def test_incidents_of_a_kind_are_on_jobs_of_their_own(world: LabelledWorld) -> None:
    spans: dict[str, list[int]] = defaultdict(list)
    for _, topic, value in world.events:
        if topic == "jobs":
            spans[value["job_id"]].append(value["time_ms"])
    for label in world.labels:
        assert min(spans[label.job_id]) < label.from_ms < label.until_ms < max(spans[label.job_id])
