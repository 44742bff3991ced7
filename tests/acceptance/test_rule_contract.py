"""Each rule of the registry in a story of its own: it fires, says why, shows evidence, and has its oracle, runbook and margins.

One log has all the stories; a rule without one fails here by name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.engine.rules.registry import ALL, BUDGET_RULES, JOB_RULES, LEDGER_RULES
from streams.engine.rules.rule import PAGE_FROM, USUAL_RATIO, AlertRule, margins_of
from streams.explain.why.judged import judged
from tests.cli.command import trainfare
from tests.oracle import job_rules, judge
from tests.oracle import ledger_rules as plain_ledger
from tests.oracle.model import HOUR_MS, MINUTE_MS

ROOT = Path(__file__).parents[2]
T0_MS = 1_772_323_200_000  # 2026-03-01 00:00:00 UTC
HOURS = 30
#: The judges of rules that have one in a module of their own.
ORACLES = {
    "retry_overhead": "tests/oracle/ledger_rules_jobs.py",
    "oversized": "tests/oracle/ledger_rules_jobs.py",
    "unusual_length": "tests/oracle/ledger_rules_jobs.py",
    "missing_price": "tests/worker/test_missing_price_oracle.py",
    "budget_used": "tests/oracle/budgets.py",
    "budget_forecast": "tests/oracle/budgets.py",
    "double_held": "tests/oracle/nodes_held.py",
    "metered_twice": "tests/oracle/nodes_held.py",
    "resubmit_loop": "tests/oracle/runs.py",
    "empty_group": "tests/oracle/node_groups.py",
    "after_node": "tests/oracle/nodes_held.py",
    "straggler": "tests/oracle/node_use.py",
    "inefficient": "tests/oracle/job_use.py",
    "spinning": "tests/oracle/spinning.py",
    "team_ceiling": "tests/oracle/team_rates.py",
    "clock_ahead": "tests/oracle/clocks.py",
    "silent_source": "tests/oracle/sources.py",
    # Its records are the account itself: what stands there fires.
    "not_understood": "tests/worker/test_not_understood.py",
    "incident": "tests/oracle/incidents.py",
}
#: Rules about a job whose cause says more than what stands for it where nothing is known.
KNOWS_MORE = {rule.name for rule in JOB_RULES if rule.name not in ("unpriced", "silent_job")}
ORACLE_WORDS = {
    "missing_price": "missing_price",
    "incident": "def incidents",
    "double_held": "def double_held",
    "metered_twice": "def metered_twice",
    "resubmit_loop": "def resubmit_loop",
    "empty_group": "def empty_group",
    "after_node": "def after_node",
    "straggler": "def straggler",
    "inefficient": "def inefficient",
    "spinning": "def spinning",
    "team_ceiling": "def team_ceiling",
    "clock_ahead": "def clock_ahead",
    "silent_source": "def silent_source",
    "budget_used": "def budget_told",
    "budget_forecast": "def forecast_told",
}
Said = tuple[float, str, dict[str, Any]]  # minute, topic, event


def jobs(minute: float, job_id: str, kind: str, **fields: Any) -> Said:
    return minute, "jobs", {"job_id": job_id, "type": kind, **fields}


def started(minute: float, job_id: str, gpus: int, **fields: Any) -> Said:
    about = {"gpu_count": gpus, "gpu_type": "H100", "owner": "ada", "cluster": "c1", **fields}
    return jobs(minute, job_id, "started", **about)


def control(kind: str, name: str, **fields: Any) -> Said:
    return 0, "controls", {"kind": kind, "name": name, **fields}


def samples(job_id: str, minutes: range, util: float, **fields: Any) -> Iterator[Said]:
    for minute in minutes:
        gpus = {"gpus": ["0"], "util_ratio": [util], "interval_ms": 5 * MINUTE_MS}
        yield minute, "gpu", {"job_id": job_id, "node": f"n-{job_id}", **gpus, **fields}


def about_jobs() -> Iterator[Said]:
    expected = {"expected_usd_per_hour": "10"}
    # In its first hours `burn_drift` would come before `burn_sustained`, and tell of it.
    for job_id, gpus, minute in (("burn_fast", 8, 60), ("burn_sustained", 3, 480)):
        yield started(0, job_id, 1, **expected)
        yield jobs(minute, job_id, "scaled", gpu_count=gpus)
    yield started(0, "burn_drift", 10, expected_usd_per_hour="100")
    yield jobs(60, "burn_drift", "scaled", gpu_count=17)
    yield control("rule", "unpriced", enabled=True)
    yield started(0, "unpriced", 8, gpu_type="X1")
    yield started(0, "silent_job", 1)
    yield jobs(5, "silent_job", "heartbeat")
    for attempt in range(1, 4):
        yield started(10 * attempt, "retry_loop", 8, attempt=attempt)
        yield jobs(10 * attempt + 5, "retry_loop", "failed", attempt=attempt, reason="out_of_memory")
    yield started(0, "idle_gpus", 1)
    yield from samples("idle_gpus", range(5, 120, 5), 0.0)
    yield started(0, "runaway_length", 1, deadline_ms=T0_MS + HOUR_MS)
    yield started(0, "traffic", 1)
    moved = {"path": "internet", "direction": "egress", "bytes": 233 * 10**9, "interval_ms": MINUTE_MS}
    yield 75, "network", {"job_id": "traffic", **moved}
    for attempt, purchase in enumerate(("spot", "on_demand"), 1):
        yield started(60 * attempt, "price_basis", 8, attempt=attempt, purchase=purchase)
    yield started(0, "no_checkpoint", 8, purchase="on_demand")
    yield jobs(30, "no_checkpoint", "checkpointed")
    yield started(0, "ceiling", 64)
    for number in range(3):
        yield started(0, f"incident-{number}", 1, cluster="c11")
        yield jobs(5, f"incident-{number}", "heartbeat")
    yield started(0, "held", 8)
    yield jobs(60, "held", "suspended", holds_gpus=True)
    yield started(0, "stalled", 4, purchase="on_demand")
    for minute in range(10, 120, 10):
        yield jobs(minute, "stalled", "heartbeat", progress={"step": min(minute, 70)})
    begun = HOURS * 60 - 170  # of speeds so long ago that nobody remembers them there would be no margins
    yield started(begun, "slow_progress", 8, purchase="on_demand")
    for minute in range(1, 170):
        step = 90 * min(minute, 80) + 30 * max(minute - 80, 0)
        yield jobs(begun + minute, "slow_progress", "heartbeat", progress={"step": step})
    yield started(0, "inefficient", 1)
    yield from samples("inefficient", range(5, 180, 5), 1.0, sm_ratio=[0.05], tensor_ratio=[0.0])
    yield started(0, "spinning", 1)
    yield from samples("spinning", range(5, 60, 5), 0.97, sm_ratio=[0.5], power_w=[600])
    yield from samples("spinning", range(60, 90, 5), 1.0, sm_ratio=[0.05], power_w=[130])
    on = {f"even-{number}": 1 for number in range(4)}
    yield started(0, "straggler", 4, nodes=on, cluster="c13")
    for number, node in enumerate(on):
        yield from samples("straggler", range(5, 60, 5), 0.9, node=node)
        yield from samples("straggler", range(60, 125, 5), 0.9 if number else 0.3, node=node)


def across_jobs() -> Iterator[Said]:
    yield control("rule", "red", rule="team_burn", team="red", thresholds={"usd_per_hour": 5})
    yield started(0, "team_burn", 1, team="red")
    yield control("rule", "red-now", rule="team_ceiling", team="red", thresholds={"usd_per_hour": 9})
    for attempt in range(1, 5):  # too far apart for a retry loop
        yield started(90 * attempt, "retry_overhead", 1, attempt=attempt)
        yield jobs(90 * attempt + 70, "retry_overhead", "failed", attempt=attempt)
    yield started(0, "owner_coverage", 300, owner="")
    for number in range(12):
        yield started(20 * number, f"size-{number}", 1, team="large")
        yield jobs(20 * number + 15, f"size-{number}", "completed")
    yield started(300, "size-99", 16, team="large")
    for number in range(24):
        yield started(10 * number, f"length-{number}", 1, team="long")
        yield jobs(10 * number + 8, f"length-{number}", "completed")
    yield started(300, "length-99", 4, team="long")
    for job_id in ("sampled-1", "sampled-2"):
        yield started(0, job_id, 1, cluster="c5")
        yield from samples(job_id, range(5, 300, 5), 0.9, cluster="c5")
    yield started(0, "unsampled_gpus", 2, cluster="c5")
    for number in range(4):
        name = "resubmit_loop" if number == 3 else f"{101 + number}"
        about = {"experiment": "llama", "work_dir": "/home/ada/llama", "run_id": "llama-a"}
        yield started(3 * number + 400, name, 8, **about)
        yield jobs(3 * number + 402, name, "failed", reason="user_error")


def of_clocks() -> Iterator[Said]:
    """A node 40 min ahead among others that go with the log."""
    for minute in range(0, 120, 5):
        for node in ("right-0", "right-1", "ahead"):
            about = {"job_id": f"on-{node}", "node": node, "interval_ms": 5 * MINUTE_MS, "source": "dcgm"}
            ahead = 40 if node == "ahead" and minute >= 30 else 0
            time_ms = T0_MS + (minute + ahead) * MINUTE_MS
            yield minute, "gpu", {**about, "gpus": ["0"], "util_ratio": [0.9], "time_ms": time_ms}


def across_nodes() -> Iterator[Said]:
    node = {"gpu_count": 8, "gpu_type": "H100", "cluster": "c1"}
    yield 0, "nodes", {"node": "lone", "type": "provisioned", **node}
    for number in range(12):
        about = {**node, "cluster": "c7", "instance_type": "p9"}
        yield 600, "nodes", {"node": f"burst-{number}", "type": "provisioned", **about}
        yield 640, "nodes", {"node": f"burst-{number}", "type": "terminated", **about}


def on_nodes() -> Iterator[Said]:
    for node in ("pair-0", "pair-1", "gone"):
        yield 0, "nodes", {"node": node, "type": "provisioned", "gpu_count": 8, "gpu_type": "H100"}
    on = {"nodes": {"pair-0": 8, "pair-1": 8}, "cluster": "c8"}
    yield started(0, "double_held", 16, **on)
    yield started(100, "given-its-nodes", 16, **on)
    yield jobs(200, "given-its-nodes", "completed")
    yield started(0, "after_node", 8, nodes={"gone": 8}, cluster="c8")
    yield 100, "nodes", {"node": "gone", "type": "terminated"}
    for number in range(4):
        about = {"gpu_count": 8, "gpu_type": "H100", "cluster": "c9", "instance_type": "p5"}
        yield 300, "nodes", {"node": f"empty-{number}", "type": "provisioned", **about}
    yield started(0, "once", 8, nodes={"twice": 8}, cluster="c8")
    yield started(1, "metered_twice", 8, nodes={"twice": 8}, cluster="c8", source="other")
    yield started(290, "on-one-of-them", 8, nodes={"empty-0": 8}, cluster="c9")


def prices() -> Iterator[Said]:
    for sku, usd, match in (
        ("h100", "10", {"gpu_type": "H100"}),
        ("h100-spot", "3", {"gpu_type": "H100", "purchase": "spot"}),
        ("h100-demand", "9", {"gpu_type": "H100", "purchase": "on_demand"}),
        ("eu", "4", {"gpu_type": "L4", "region": "eu"}),
    ):
        yield (
            0,
            "prices",
            {"sku": sku, "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": 0, **match},
        )
    yield 0, "prices", {"sku": "out", "component": "network", "usd": "0.09", "per": "gb", "effective_ms": 0}
    for minute, usd in ((0, "1"), (300, "9")):
        effective_ms = T0_MS + minute * MINUTE_MS
        jump = {"sku": "jump", "component": "gpu", "usd": usd, "per": "gpu_hour", "gpu_type": "A10"}
        yield minute, "prices", {**jump, "effective_ms": effective_ms}
    yield started(0, "missing_price", 8, gpu_type="L4", region="us")
    entries = {"metered": 1, "not_understood/unknown_gres": 1}
    yield control("source", "slurm", polls=1, entries=entries, standing=["unknown_gres"])
    for minute in (0, 60, 120):
        about = {"kind": "source", "name": "silent_source", "polls": 60, "entries": {"metered": 1}}
        yield minute, "controls", about


def budgets() -> Iterator[Said]:
    yield control("budget", "small", team="red", usd="20", per="day")
    yield control("budget", "soon", team="long", usd="900", per="day")


def lines() -> Iterator[str]:
    ids = count()
    said = [*prices(), *about_jobs(), *across_jobs(), *across_nodes(), *on_nodes(), *of_clocks(), *budgets()]
    said.append(jobs(HOURS * 60, "last", "queued"))
    for minute, topic, event in sorted(said, key=lambda each: each[0]):
        time_ms = T0_MS + round(minute * MINUTE_MS)
        about = {"source": "t", "id": str(next(ids)), "time_ms": time_ms}
        yield json.dumps({"topic": topic, "value": {**about, **event}}) + "\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    """The store of a replay of all stories."""
    root = tmp_path_factory.mktemp("contract")
    (root / "events.jsonl").write_text("".join(lines()))
    done = trainfare("replay", root / "events.jsonl", "--data", root / "meter", "--partitions", 2)
    assert done.code == 0, done.err
    opened = ClickHouseStore(Embedded(data_dir=root / "meter"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def alerts(store: ClickHouseStore) -> list[dict[str, Any]]:
    return asked(store, "SELECT * FROM alerts FINAL ORDER BY rule, started, subject_name")


def asked(store: ClickHouseStore, sql: str) -> list[dict[str, Any]]:
    answer = store.ask(sql, {})
    return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]


def of(alerts: list[dict[str, Any]], rule: AlertRule) -> dict[str, Any]:
    """The alert of the rule in its own story, else its first one."""
    found = [each for each in alerts if each["rule"] == rule.name]
    fired = dict(Counter(each["rule"] for each in alerts))
    assert found, (
        f"{rule.name} fires in no story: add one to this module, of a job named as the rule; {fired} fire"
    )
    own = [each for each in found if each["subject_name"] == rule.name]
    return (own or found)[0]


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_it_fires_and_its_sentence_has_no_blank(rule: AlertRule, alerts: list[dict[str, Any]]) -> None:
    alert = of(alerts, rule)
    said = alert["summary"]
    assert len(said) > 20
    assert not re.search(r"  |\bfor [,;.]|\b([A-Za-z]+) \1\b|\bNone\b|\{|\}|: ;|^[ ,;.:]", said), said
    if rule in JOB_RULES and rule.name in KNOWS_MORE and rule.words is not None and rule.words.unknown:
        assert alert["status"] == "firing", (
            "it is over at the end of its story, whose sentence is without `cause`"
        )
        assert rule.words.unknown not in said, f"nothing came of `cause`, so it says `unknown`: {said}"
    if rule not in BUDGET_RULES:  # whose levels have theirs
        dear = ("page",) if PAGE_FROM in rule.thresholds else ()
        assert alert["severity"] in (rule.severity, *dear)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_its_evidence_has_rows(rule: AlertRule, alerts: list[dict[str, Any]], store: ClickHouseStore) -> None:
    assert asked(store, of(alerts, rule)["evidence_sql"])


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_it_has_an_oracle(rule: AlertRule) -> None:
    names = {*judge.FACTS, *(each.name for each in judge.BURN_RULES)} if rule in JOB_RULES else ()
    if rule in JOB_RULES:
        assert rule.name in names, "no line in FACTS of tests/oracle/judge.py"
        known = set(job_rules.DEFAULTS.get(rule.name, {}))
        # What is usual for a kind opens and closes nothing: tests/notify/test_kind_hold.py has it.
        opening = set(rule.thresholds) - {USUAL_RATIO}
        assert known == opening, "not the thresholds in DEFAULTS of tests/oracle/job_rules.py"
        return
    module = ORACLES.get(rule.name, plain_ledger.__file__)
    words = ORACLE_WORDS.get(rule.name, f'"{rule.name}"')
    assert words in (ROOT / module).read_text(), f"no {words} in {module}; another module: name it in ORACLES"


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_its_runbook_is_a_heading(rule: AlertRule) -> None:
    page, _, anchor = rule.runbook.partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}
    assert anchor in anchors, f"docs/{page} has no heading of the anchor #{anchor}: write there what to do"


@pytest.mark.parametrize("rule", JOB_RULES, ids=lambda rule: rule.name)
def test_its_margins_hold_when_it_fired(
    rule: AlertRule, alerts: list[dict[str, Any]], store: ClickHouseStore
) -> None:
    alert = of(alerts, rule)
    # What was heard before the newest instant is not stored.
    held_ms = None if rule.name == "slow_progress" else round(alert["held"].timestamp() * 1000)
    found = judged(store, alert["subject_name"], held_ms).rules
    conditions = [each for each in found if each.rule == rule.name]
    assert conditions, f"`margins` of {rule.name} has none at the tick at which it fired"
    if rule.name != "silent_job":  # how long it had been silent before the last tick is not stored
        ways: dict[int, bool] = {}
        for each in conditions:
            ways[each.way] = ways.get(each.way, True) and (each.share or 0) >= 1
        assert any(ways.values()), conditions


@pytest.mark.parametrize("rule", [*LEDGER_RULES.values(), *BUDGET_RULES], ids=lambda rule: rule.name)
def test_its_alert_has_the_margins_of_the_instant_at_which_it_opened(
    rule: AlertRule, alerts: list[dict[str, Any]]
) -> None:
    found = margins_of(of(alerts, rule)["margins"])
    assert found, f"`finding` of {rule.name} hands on no `margins`"
    ways: dict[int, bool] = {}
    for each in found:
        ways[each.way] = ways.get(each.way, True) and (each.share or 0) >= 1
    assert any(ways.values()), found


def test_every_rule_is_of_one_kind() -> None:
    assert [*JOB_RULES, *LEDGER_RULES.values(), *BUDGET_RULES] == list(ALL)
