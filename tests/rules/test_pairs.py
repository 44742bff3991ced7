"""Which rule gives way to which: the registry says what the kernel does, and no two rules silence each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streams.engine.kernels import precedence
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.kernels.episode import _BY_WINDOW as WINDOWED
from streams.engine.kernels.episode import _DTYPES as DTYPES
from streams.engine.kernels.episode import (
    BURN_RULES,
    BY_JOB,
    PAGE_LEVEL,
    EpisodeArrays,
    as_arrays,
    no_episodes,
)
from streams.engine.rules.profiles import DEFAULT, limits_of
from streams.engine.rules.registry import BY_NAME, NAMES
from streams.rules.pairs import NOT_SENT, OPENS_NOTHING, between, every_pair, mutual, page, yields

ROOT = Path(__file__).parents[2]
AT_MS = 10**12
#: Where each rule on the ledger, or about budgets, is shown to give way: a test by file and name.
SHOWN = {
    "after_node": {
        "silent_job": "tests/worker/test_after_node.py::test_what_silent_job_tells_of_is_told_once",
        "double_held": "tests/worker/test_after_node.py::test_a_job_whose_nodes_were_held_twice_is_told_once",
        "metered_twice": "tests/worker/test_held_jobs_oracle.py::test_the_alerts_are_those_of_the_plain_judge",
    },
    "double_held": {
        "silent_job": "tests/worker/test_held_jobs_oracle.py::test_the_alerts_are_those_of_the_plain_judge",
        "metered_twice": "tests/worker/test_metered_twice.py::test_a_node_that_is_held_twice_by_one_job_is_told_once",
    },
    "retry_overhead": dict.fromkeys(
        ("retry_loop", "resubmit_loop"),
        "tests/worker/test_retry_overhead.py::test_it_leaves_out_what_an_alert_about_a_loop_of_the_run_named",
    ),
    "resubmit_loop": {
        "retry_loop": "tests/worker/test_resubmit_loop.py::test_what_a_retry_loop_told_of_is_not_told_again"
    },
    "unsampled_gpus": {
        **dict.fromkeys(
            ("silent_job", "held", "metered_twice", "double_held", "after_node"),
            "tests/worker/test_unsampled_gpus.py::test_what_another_rule_tells_of_is_told_once",
        ),
        "clock_ahead": "tests/worker/test_clock_ahead_rule.py::test_a_job_whose_samples_come_ahead_has_one_cause",
    },
    **{
        name: {"empty_group": "tests/worker/test_empty_group.py::test_what_its_nodes_cost_is_told_once"}
        for name in ("forgotten_node", "provisioning_burst")
    },
    "unallocated": {
        "empty_group": "tests/worker/test_empty_group.py::test_what_its_nodes_cost_is_told_once",
        "forgotten_node": "tests/acceptance/test_one_cause_one_message.py::test_processes_that_a_cancelled_job_left_are_told_with_its_name",
    },
    "spinning": dict.fromkeys(
        ("stalled", "idle_gpus", "slow_progress", "straggler", "inefficient"),
        "tests/worker/test_job_use_rules.py::test_what_another_rule_tells_of_is_told_once",
    ),
    "straggler": dict.fromkeys(
        ("stalled", "idle_gpus", "slow_progress", "spinning"),
        "tests/worker/test_job_use_rules.py::test_what_another_rule_tells_of_is_told_once",
    ),
    "inefficient": dict.fromkeys(
        ("stalled", "idle_gpus", "slow_progress", "spinning", "straggler"),
        "tests/worker/test_job_use_rules.py::test_what_another_rule_tells_of_is_told_once",
    ),
    "incident": {
        "price_jump": "tests/engine/ledger_rules/test_incidents.py::test_it_tells_what_the_oracle_tells_in_any_cut"
    },
    "budget_forecast": {
        "budget_used": "tests/property/test_budgets.py::test_looks_tell_what_the_oracle_tells"
    },
}


def gives_way(rule: int, other: int | None) -> bool:
    """Whether a rule of the kernel opens nothing, of a job that nothing is known of, while another one pages."""
    limits = limits_of([DEFAULT])
    shapes: dict[str, tuple[int, ...]] = {
        name: (1,) if name in BY_JOB else (1, 1) for name in EpisodeArrays._fields
    }
    shapes |= dict.fromkeys(WINDOWED, (1, 1, len(WINDOWS_MS)))
    arrays: list[Any] = [np.zeros(shapes[name], DTYPES.get(name, np.int64)) for name in shapes]
    empty = EpisodeArrays(*arrays)
    figures = as_arrays(empty, 1, 1, len(WINDOWS_MS))
    episodes = no_episodes(1, len(NAMES))
    if other is not None:
        episodes["open"][0, other], episodes["level"][0, other] = 1, PAGE_LEVEL
    if precedence.yields(rule, AT_MS, int(limits.pages[0]), episodes[0]):
        return True
    times_ms = np.array([AT_MS], np.int64)
    return rule < BURN_RULES and bool(
        precedence.is_suppressed(rule, times_ms, 0, 0, limits, figures, episodes[0])
    )


@pytest.mark.parametrize("rule", NAMES)
def test_the_registry_says_to_which_rules_the_kernel_gives_way(rule: str) -> None:
    number = NAMES.index(rule)
    assert not gives_way(number, None)
    found = {name for other, name in enumerate(NAMES) if other != number and gives_way(number, other)}
    assert found == set(BY_NAME[rule].yields_to), (
        "`yields_to` only says it: let it give way in `yields` of streams/engine/kernels/precedence.py, and in TOLD_BY of"
        " tests/oracle/judge.py"
    )


def test_each_rule_on_the_ledger_is_shown_to_give_way() -> None:
    on_ledger = {name: set(rule.yields_to) for name, rule in BY_NAME.items() if name not in NAMES}
    assert {name: others for name, others in on_ledger.items() if others} == {
        name: set(others) for name, others in SHOWN.items()
    }
    for others in SHOWN.values():
        for shown in others.values():
            file, _, name = shown.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), shown


def test_no_two_rules_keep_each_other_silent() -> None:
    """A message that is withheld needs another one that is not; what opens nothing needs one that opened before."""
    withheld = {(rule, other) for rule, other, way in yields() if way == NOT_SENT}
    assert not _reaches_itself(withheld)
    # Of those that wait for whichever comes first, one is known to the next: nothing silences both at once.
    first = {pair for pair in mutual() if pair <= set(NAMES)}
    assert first == {
        frozenset(pair)
        for pair in [
            ("burn_sustained", "burn_drift"), ("burn_sustained", "ceiling"), ("burn_drift", "ceiling"), ("idle_gpus", "stalled"),
            ("idle_gpus", "slow_progress"),
        ]
    }  # fmt: skip
    assert mutual() - first == {
        frozenset(pair) for pair in [("spinning", "straggler"), ("spinning", "inefficient")]
    }
    ways = {(rule, other) for rule, other, way in yields() if way == OPENS_NOTHING}
    assert not _reaches_itself({pair for pair in ways if frozenset(pair) not in mutual()})


def _reaches_itself(ways: set[tuple[str, str]]) -> bool:
    left = set(ways)
    while left:
        ends = {other for _, other in left} - {rule for rule, _ in left}
        if not ends:
            return True
        left = {(rule, other) for rule, other in left if other not in ends}
    return False


def test_a_circle_is_found_out() -> None:
    assert _reaches_itself({("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")})
    assert not _reaches_itself({("a", "b"), ("b", "c"), ("a", "c")})


def test_every_pair_of_rules_is_said_once() -> None:
    lines = list(every_pair())
    assert len(lines) == len(BY_NAME) * (len(BY_NAME) - 1) // 2
    assert (
        "idle_gpus, stalled: idle_gpus opens nothing beside stalled; stalled opens nothing beside idle_gpus"
        in lines
    )
    assert "burn_fast, held: may stand together" in lines
    assert between("team_burn", "traffic") == [
        "traffic is muted for people beside team_burn if that is a page and this is a ticket"
    ]
    names = {name for rule in BY_NAME.values() for name in (*rule.yields_to, *rule.inhibited_by)}
    assert names <= BY_NAME.keys()


def test_the_page_of_pairs_is_written_from_the_rules() -> None:
    """Run `make docs` where this fails."""
    assert (ROOT / "docs/rule_pairs.md").read_text() == page()
