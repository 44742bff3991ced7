"""Labelled traces: the same of the same seed, as their labels say, and judged as the plain judge does."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import orjson
import pytest

from loadtest.labelled.bounds import PROMISES, as_table, caught_figures, clean_figures, figures_of
from loadtest.labelled.crowds import OVERSIZED_TEST
from loadtest.labelled.incidents import KINDS
from loadtest.labelled.outcome import Outcome, merged, scores_of
from loadtest.labelled.world import SMALL, LabelledWorld, make_world, write_world
from schemas.decode import decode
from schemas.durations import DAY_MS
from schemas.invalid import Invalid
from streams.backtest.fired import Backtest, Detection, FiredAlert
from streams.backtest.labels import Label, read_labels
from streams.backtest.run import BacktestRun, backtested
from streams.backtest.score import KindScore
from streams.cli.backtest import rule_file
from streams.config.settings import Settings
from tests.oracle.judge import SEVERITY, judge_job
from tests.oracle.knowledge import Knowledge, in_log_time
from tests.oracle.ledger_rules_jobs import judge_log
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
    assert [label.kind for label in world.labels] == [*KINDS, OVERSIZED_TEST]
    for line in lines:
        said = orjson.loads(line)
        assert not isinstance(decode(said["topic"], orjson.dumps(said["value"]), [], LATER_MS), Invalid)


@pytest.fixture(scope="module")
def log(world: LabelledWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("labelled")
    write_world(world, directory / "log.jsonl", directory / "labels.csv")
    return directory / "log.jsonl"


def _outcome(run: BacktestRun, world: LabelledWorld) -> Outcome:
    return Outcome(len(world.events), run.backtest, world.labels, world.involved, scores_of(run, world))


@pytest.fixture(scope="module")
def outcome(world: LabelledWorld, log: Path) -> Outcome:
    with backtested([log], None, Settings()) as run:
        return _outcome(run, world)


def test_the_plain_judges_agree_on_every_alert(world: LabelledWorld, outcome: Outcome) -> None:
    of_ledger = ("oversized", "retry_overhead", "unusual_length")
    got = {
        (x.rule, x.subject, x.started_ms, x.resolved_ms)
        for x in outcome.backtest.alerts
        if x.rule in (*SEVERITY, *of_ledger)
    }
    lines = [Line(topic, value) for _, topic, value in world.events]
    told = in_log_time(lines)
    knowledge = Knowledge(told)
    want = {
        (x.rule, x.subject, x.started_ms, x.resolved_ms)
        for job_id in knowledge.job_ids
        for x in judge_job(job_id, knowledge, until_ms=told[-1].log_ms)
    }
    want |= {(x.rule, x.job_id, x.started_ms, x.resolved_ms) for x in judge_log(lines)}
    assert got == want
    caught = {(subject, rule) for rule, subject, *_ in got}
    assert caught >= {
        ("3x-aaa", "burn_sustained"), ("10x-aaa", "burn_fast"), ("1.5x_12h-aaa", "burn_drift"), ("idle-aaa", "idle_gpus"),
        ("retry_loop-aaa", "retry_loop"), ("cross_region-aaa", "traffic"), ("spot_fallback-aaa", "price_basis"),
        ("test-aaa-99", "oversized"),
    }  # fmt: skip


def test_all_bounds_hold_and_every_kind_is_caught(outcome: Outcome) -> None:
    figures = figures_of(outcome)
    assert [figure.name for figure in figures if not figure.holds] == []
    assert [figure.value for figure in figures] == [0, 0, *[1] * len(PROMISES)]


def test_rules_that_are_broken_miss_their_bounds(world: LabelledWorld, log: Path, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    off = "".join(f'[[rule]]\nname = "{rule}"\nenabled = false\n' for rule in ("burn_fast", "idle_gpus"))
    file.write_text(f'{off}[[rule]]\nname = "runaway_length"\nthresholds = {{hours = 0.5}}\n')
    with backtested([log], rule_file(file, Settings()), Settings()) as run:
        figures = figures_of(_outcome(run, world))
    missed = ["clean tickets per job-day", "10x within 5 min", "idle within 60 min"]
    assert [figure.name for figure in figures if not figure.holds] == missed


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
        found.append(Detection(Label(f"{kind}-{place}", kind, 0, DAY_MS), first_ms, Decimal(usd)))
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
        assert min(spans[label.job_id]) <= label.from_ms < label.until_ms <= max(spans[label.job_id])


def test_a_rule_that_caught_nothing_in_one_part_missed_all_there() -> None:
    here = _caught("3x", [5], 1)
    by_rule = KindScore("3x", "burn_drift", here.detections)
    parts = [
        Outcome(1, Backtest("", (), {}, 1, 0), [], [], scores)
        for scores in ([here, by_rule], [_caught("3x", [7, None], 1)])
    ]
    shares = {score.rule: [each.delay_ms for each in score.detections] for score in merged(parts).scores}
    assert shares == {"any rule": [300_000, 420_000, None], "burn_drift": [300_000, None, None]}
