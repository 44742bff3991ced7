"""Every rule's sentence fits a phone, whatever realistic names it has, and says nothing of what was to come when shown later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ALERTS, NODE_HOURS
from streams.accounts.causes import REMEDIES
from streams.engine.alerts.alert import FIRING
from streams.engine.alerts.budgets import Budget, Limits
from streams.engine.alerts.outlook import AlertSentence, sentence_of
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.budget_alert import TopKind, budget_alert
from streams.engine.ledger_rules.findings import BudgetFinding
from streams.engine.ledger_rules.periods import period_at
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts
from streams.engine.rules.formatting import SENTENCE_AT_MOST
from streams.engine.rules.registry import LEDGER_RULES, NAMES
from streams.engine.rules.shared_cause import cause_text
from tests.engine.rules.told import M, sentences
from tests.oracle.cases import T0 as BEGIN_MS
from tests.oracle.cases import gpu, job, network
from tests.oracle.model import Line
from tests.worker.ledger_lab import HOUR_MS, T0, at
from tests.worker.test_clock_ahead_rule import comes_ahead
from tests.worker.test_double_held import holds, nodes
from tests.worker.test_fleet_rules import World, broken, shared, world
from tests.worker.test_inefficient import LOW, does, phases
from tests.worker.test_metered_twice import reported
from tests.worker.test_missing_price import stands, unpriced, without_gpus
from tests.worker.test_not_understood import tells
from tests.worker.test_oversized import begin
from tests.worker.test_resubmit_loop import ran
from tests.worker.test_silent_source import reports
from tests.worker.test_spinning import SPINS, WORKS, drives
from tests.worker.test_spinning import phases as working
from tests.worker.test_straggler import uneven
from tests.worker.test_unsampled_gpus import held
from tests.worker.test_unusual_length import completed, running

__all__ = ["shared", "world"]

#: As long as names of jobs are; other names as clouds and schedulers have them.
JOB = "megatron-pretraining-175b-lr3e-4-run-042"
TEAM = "foundation-models-alignment"
REGIONS = "northamerica-northeast1", "australia-southeast2"
SKU = "gcp-a3-megagpu-8g-spot-us-central1-h100-80gb"
CLUSTER = "prod-northamerica-northeast1-gpu-a"
USD = 10**9
#: How a sentence speaks of what is to come, in whatever rule.
TO_COME = re.compile(r"\bmore by\b|\bused up at\b|\bwill\b|, else\b|\bat this rate\b|\bsoon\b")
#: Rules about one job that do not: what they tell of has no known cost, or they say what is wasted per hour.
SILENT_OF_COST = {"unpriced", "silent_job", "slow_progress"}
ACROSS_JOBS = {
    "team_burn",
    "unallocated",
    "forgotten_node",
    "oversized",
    "unsampled_gpus",
    "double_held",
    "after_node",
    "empty_group",
    "metered_twice",
    "straggler",
    "inefficient",
    "spinning",
    "team_ceiling",
}


def fits(summary: str) -> None:
    assert len(summary) <= SENTENCE_AT_MOST, summary
    assert "\n" not in summary
    assert not summary.endswith("\u2026"), f"does not fit with names as long as these; say less: {summary}"


def speaks(sentence: AlertSentence) -> bool:
    """Whether it speaks of what is to come; shown later, it does not any more, and says the rest."""
    later = sentence.past()
    assert not TO_COME.search(later), later
    if not TO_COME.search(sentence.text):
        assert later == sentence.text
        return False
    said, says = ({*re.split(r"[\s,;:]+", each)} for each in (sentence.text, later.replace("was to", "will")))
    assert says <= said, later
    return True


def histories() -> Iterator[list[Line]]:
    """Jobs with one fault each."""
    about: dict[str, Any] = {"gpu_count": 512, "purchase": "spot", "region": REGIONS[0], "cluster": CLUSTER}
    about |= {"gpu_type": "NVIDIA-H100-80GB-HBM3", "team": TEAM, "owner": "ada.lovelace@research.example.com"}
    start = job(JOB, "started", BEGIN_MS, **about)
    end = job("other", "queued", BEGIN_MS + 4 * HOUR_MS)
    yield [
        line
        for attempt in range(1, 13)
        for line in (
            job(JOB, "started", BEGIN_MS + 5 * M * attempt, attempt=attempt, **about),
            job(JOB, "failed", BEGIN_MS + 5 * M * attempt + 4 * M, attempt=attempt,
                reason=("out_of_memory", "communication_timeout", "node_failure")[attempt % 3]),
        )
    ] + [end]  # fmt: skip
    yield [
        start,
        job(JOB, "preempted", BEGIN_MS + 20 * M, reason="capacity_reclaimed"),
        job(JOB, "started", BEGIN_MS + 21 * M, attempt=12, purchase="on_demand"),
        job(JOB, "scaled", BEGIN_MS + 30 * M, attempt=12, gpu_count=4096),
        job(JOB, "completed", BEGIN_MS + 90 * M, attempt=12),
        end,
    ]
    ways = {"path": "cross_region", "region": REGIONS[0], "dst_region": REGIONS[1]}
    yield [start, network(JOB, BEGIN_MS + 30 * M, M, bytes=10**14, **ways), end]
    yield [
        job(JOB, "started", BEGIN_MS, **about, deadline_ms=BEGIN_MS + M),
        *(job(JOB, "heartbeat", BEGIN_MS + minute * M, id=f"b{minute}") for minute in (1, 42)),
        end,
    ]
    yield [job(JOB, "started", BEGIN_MS, **about | {"purchase": "reserved"}), end]
    off = {"rule": "ceiling", "enabled": False, "time_ms": BEGIN_MS, "source": "r", "id": "2"}
    untold = Line(
        "controls", {"kind": "rule", "name": "untold", **off}
    )  # while it fires these burns are not told
    yield [untold, start, job(JOB, "scaled", BEGIN_MS + HOUR_MS, gpu_count=800), end]
    # In its first hours `burn_drift` would come before `burn_sustained`, and tell of it.
    small = job(JOB, "started", BEGIN_MS, **about | {"gpu_count": 4})
    later = [
        job(JOB, "scaled", BEGIN_MS + 8 * HOUR_MS, gpu_count=12),
        job("other", "queued", BEGIN_MS + 12 * HOUR_MS),
    ]
    yield [untold, small, *later]
    samples = [gpu(JOB, BEGIN_MS + minute * M, M, {"0": 0.01}, id=f"s{minute}") for minute in range(1, 200)]
    yield [job(JOB, "started", BEGIN_MS, **about | {"gpu_count": 1}), *samples, end]
    yield [untold, start, job(JOB, "scaled", BEGIN_MS + 60 * M, gpu_count=2048), end]
    soon = {
        "rule": "no_checkpoint",
        "thresholds": {"hours": 0.5},
        "time_ms": BEGIN_MS,
        "source": "r",
        "id": "1",
    }
    yield [Line("controls", {"kind": "rule", "name": "soon", **soon}), start, end]
    yield [start, job(JOB, "suspended", BEGIN_MS + 10 * M, holds_gpus=True), end]
    shown = {"training_tokens_seen_by_all_data_parallel_ranks": 12_345_678_901_234}
    beats = [
        job(
            JOB,
            "heartbeat",
            BEGIN_MS + minute * M,
            id=f"p{minute}",
            progress={next(iter(shown)): 1} if minute < 3 else shown,
        )
        for minute in range(1, 60)
    ]
    yield [start, *beats, end]
    yield [job(JOB, "allocated", BEGIN_MS, **about), end]
    slow = [
        job(
            JOB,
            "heartbeat",
            BEGIN_MS + minute * M,
            id=f"p{minute}",
            progress={next(iter(shown)): 10**12 * (3 * minute if minute < 80 else 160 + minute)},
        )
        for minute in range(1, 170)
    ]
    yield [start, *slow, end]


def test_rules_about_one_job() -> None:
    seen: dict[str, bool] = {}
    for lines in histories():
        found = sentences(*lines)
        for (rule, status), summary in found.items():
            fits(summary)
            if status == FIRING:
                seen[rule] = speaks(AlertSentence(rule, summary, BEGIN_MS))
            else:
                assert not TO_COME.search(summary), summary
    assert set(seen) == set(NAMES), (
        f"add a job with long names to `histories` in which it fires: {set(NAMES) - set(seen)}"
    )
    assert {rule for rule, says in seen.items() if not says} == SILENT_OF_COST, (
        "a sentence says what it costs if nothing is done (`before_cost` of its `Words`), or its rule stands in `SILENT_OF_COST`"
    )


def fails_again(world: World) -> None:
    for number, reason in enumerate(("out_of_memory", "node_failure", "user_error", "out_of_memory") * 2):
        about: dict[str, Any] = {"owner": TEAM, "team": TEAM, "experiment": JOB}
        ran(
            world,
            f"{JOB}-again-{number}",
            200 + 7 * number,
            206 + 7 * number,
            reason=reason,
            lost=12_345.67,
            **about,
        )


def runs_ahead(world: World) -> None:
    for number in range(10):
        fields = {"records": 123_456, "most_ahead_ms": 27 * HOUR_MS - number}
        comes_ahead(world, range(10), f"dcgm/{CLUSTER}", f"gke-{CLUSTER}-pool-8c1f-{number}", **fields)


def test_rules_across_jobs(world: World) -> None:
    for hour in range(8):
        world.job(JOB, hour, 120_000, owner="", team=TEAM)
        world.node(f"gke-{CLUSTER}-pool-8c1f", hour, 98.32)
    for attempt in (1, 2, 3):
        broken(world, f"{JOB}-retried", attempt, 0, 20_000, 9_000)
    for number in range(12):
        instance = {"cluster": CLUSTER, "instance_type": "a3-megagpu-8g-nolssd-reserved"}
        world.put(NODE_HOURS, node=f"n{number}", hour=at(T0), paid_ms=HOUR_MS, gpu_milli_ms=0, **instance)
    for minute, usd in enumerate((2, 6.5)):
        world.price(SKU, usd, minute + 1, match={"gpu_type": CLUSTER, "region": REGIONS[1]})
    world.price(f"{SKU}-committed", 65.5, 3, match={"gpu_type": CLUSTER, "region": REGIONS[1]})
    for number in range(20):
        begin(world, f"{JOB[:-4]}-{number}", number, 10, minutes=30, team="t")
        completed(world, f"{JOB[:-8]}-done-{number}", 61)
    begin(world, f"{JOB[:-4]}-99", 64, 60_000, minutes=100, team="t")
    running(world, f"{JOB[:-8]}-done-99", 8, 12_345)
    held(world, f"{JOB}-sampled", 1, cluster=CLUSTER)
    held(world, f"{JOB}-not-sampled", 0.1234, gpus=16_384, cluster=CLUSTER)
    for number in range(2):
        names = {"gpu_type": f"NVIDIA {CLUSTER} {number}", "region": REGIONS[0], "cluster": CLUSTER}
        unpriced(world, f"{JOB}-unpriced-{number}", 0, **names)
        without_gpus(world, f"{JOB}-machine-{number}", 0, instance_type=f"{CLUSTER}-{number}")
        stands(world, f"gke-{CLUSTER}-cpu-{number}", 0, instance_type=f"{CLUSTER}-node-{number}")
        stands(world, f"gke-{CLUSTER}-gpu-{number}", 0, "gpu_milli_ms", gpu_type=f"{CLUSTER}-{number}")
    pool = [f"gke-{CLUSTER}-pool-8c1f-{number}" for number in range(40)]
    nodes(world, range(60), 8, *pool)
    for number in range(3):
        holds(world, f"{JOB}-{number}", range(5 * number, 60), 8, *pool, usd=12.34)
    for number in range(2):
        sources = [f"kubernetes/{CLUSTER}-{number}", f"slurm/{CLUSTER}-{number}"]
        reported(
            world,
            f"{JOB}-{number}-twice",
            range(400, 470),
            *sources,
            on=tuple(f"{each}-twice" for each in pool),
            usd=12.34,
        )
    fails_again(world)
    nodes(world, range(400, 470), 8, "used", cluster=CLUSTER)
    holds(world, "uses", range(400, 470), 8, "used")
    kind = {"cluster": CLUSTER, "instance_type": "a3-megagpu-8g-nolssd-reserved"}
    nodes(world, range(409, 470), 8, *(f"{each}-empty" for each in pool), usd=12.34, **kind)
    nodes(world, range(20), 8, *(f"{each}-gone" for each in pool))
    holds(world, f"{JOB}-billed-on", range(60), 8, *(f"{each}-gone" for each in pool), usd=12.34)
    uneven(
        world, f"{JOB}-uneven", range(60), 0.012, *pool, names=[f"{each}-slow" for each in pool], usd=12.34
    )
    does(world, f"{JOB}-busy", phases((LOW._replace(usd_per_hour=123_456, gpus=12_345), 150)), team=TEAM)
    drives(world, f"{JOB}-spins", working((WORKS, 40), (SPINS, 40)), 12_345, 12_345, team=TEAM)
    more = {"example": f"job {JOB} of {TEAM} holds gres/npu:910b:8 on {CLUSTER}", "entries": 123_456}
    tells(world, 1, 5, *sorted(REMEDIES), name=CLUSTER, **more)
    runs_ahead(world)
    reports(world, f"kubernetes@{CLUSTER}", 1, 60.5, 120)
    for number in range(3):
        cause = cause_text("silence", CLUSTER, "a3-megagpu-8g-nolssd-reserved")
        fired = {"alert_id": f"al_{number}", "rule": "silent_job", "severity": "ticket", "status": "firing"}
        about = {"subject_kind": "job", "subject_name": f"{JOB}-silent-{number}", "shared_cause": cause}
        paid = {"opened_usd_per_hour": Decimal("123456.78"), "started": at(T0 + HOUR_MS)}
        world.put(ALERTS, **fired, **about, **paid)
    limit = {"rule": "team_burn", "team": TEAM, "thresholds": {"usd_per_hour": 100_000}}
    ceiling = {"rule": "team_ceiling", "team": TEAM, "thresholds": {"usd_per_hour": 100_000}}
    changes = world.look(9, ("rule", "limit-of-foundation-models-alignment", limit), ("rule", "c", ceiling))
    seen: dict[str, bool] = {}
    for alert in changes:
        fits(alert.summary)
        fits(resolved(alert, alert.changed_ms + HOUR_MS).summary)
        if alert.status == FIRING:
            seen[alert.rule] = speaks(sentence_of(alert))
    assert seen == {rule: rule in ACROSS_JOBS for rule in LEDGER_RULES}


@pytest.mark.parametrize("rule", ["budget_used", "budget_forecast"])
@pytest.mark.parametrize("percent", [50, 100])
@pytest.mark.parametrize("per", ["day", "week", "month", "total"])
def test_budgets(rule: str, percent: int, per: str) -> None:
    budget = Budget(
        name=f"{TEAM}-quarter-3-gpu-spend",
        match={"experiment": JOB, "team": TEAM, "owner": "ada.lovelace@research.example.com"},
        limits=Limits(usd_nano=120_000 * USD, gpu_milli_ms=10**15, wall_clock_ms=None),
        per=per,
    )
    period = period_at(per, T0)
    found = BudgetFinding(
        rule,
        0 if rule == "budget_forecast" else percent,
        BudgetSubject(budget),
        period,
        T0,
        True,
        Amounts(1_200 * USD * percent, 7 * 10**12 * percent, 0),
        Amounts(4_108 * USD, 10**12, 0),
        T0 + 600 * HOUR_MS,
        500 * HOUR_MS,
    )
    alert = budget_alert(None, found, TopKind(JOB, 3_159 * USD), silenced=False)
    fits(alert.summary)
    fits(resolved(alert, T0 + HOUR_MS).summary)
    assert speaks(sentence_of(alert))


def test_a_part_that_pays_more_now_than_all_did_in_the_hour_says_so() -> None:
    budget = Budget("b", {"team": "vision"}, "month", Limits(usd_nano=1_000 * USD))
    subject = BudgetSubject(budget)
    used = Amounts(850 * USD, 0, 0)
    found = BudgetFinding(
        "budget_used",
        80,
        subject,
        period_at("month", T0),
        T0,
        True,
        used,
        Amounts(64 * USD, 0, 0),
        None,
        HOUR_MS,
    )
    alert = budget_alert(None, found, TopKind("train-1", 179 * USD), silenced=False)
    assert (
        "$64/h in the last hour, used up at 11:00 UTC; stop or shrink train-1 ($179/h now)" in alert.summary
    )
    later = sentence_of(alert).at(T0 + HOUR_MS, 0)
    assert "$64/h in the last hour; stop or shrink train-1 ($179/h now)" in later
    less = budget_alert(None, found, TopKind("train-1", 60 * USD), silenced=False)
    assert "$64/h, used up at 11:00 UTC; stop or shrink train-1 ($60/h)" in less.summary
