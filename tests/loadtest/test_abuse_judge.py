"""Each limit of an attack fires by itself, and a figure that is missing holds no limit."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from loadtest import abuse_judge
from loadtest.abuse import plain
from loadtest.abuse_honest import UNANSWERED, Seen
from loadtest.abuse_judge import Spread, verdicts
from loadtest.abuse_live import Probe
from loadtest.abuse_report import show
from loadtest.abuse_run import Phase
from tests.loadtest.abuse_figures import FAST, figures

STOP = {"s": 1.5, "code": 0, "queries": 2, "queries_s": 0.2}


def failed(found: dict[str, Any]) -> list[str]:
    return [each.name for each in verdicts(found) if not each.ok]


def test_a_run_within_its_limits_has_no_failure() -> None:
    assert failed(figures()) == []
    assert failed(figures({"rss_mib": 900.0})) == []


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"alive": False}, "the worker lives"),
        ({"attack": {"healthz": FAST._replace(right=9)}}, "/healthz"),
        ({"attack": {"healthz": FAST._replace(max_ms=1_000.0)}}, "/healthz"),
        ({"attack": {"healthz": Spread(0, 0, None, None, None)}}, "/healthz"),
        ({"attack": {"live": FAST._replace(p99_ms=2_000.0)}}, "live p99"),
        ({"attack": {"live": FAST._replace(p99_ms=math.inf)}}, "live p99"),
        ({"attack": {"live": Spread(0, 0, None, None, None)}}, "live p99"),
        ({"attack": {"rss_mib": 901.0}}, "memory of the worker"),
        ({"stop": {**STOP, "queries_s": 2.0}}, "queries end at SIGTERM"),
        ({"stop": {**STOP, "s": 10.0}}, "the worker ends at SIGTERM"),
        ({"stop": {**STOP, "code": -9}}, "the worker ends at SIGTERM"),
        ({"wrong": ["job a: got 1, want 2"]}, "the books"),
        ({"audit_code": 1}, "the books"),
    ],
)
def test_each_limit_fires_alone(changed: dict[str, Any], name: str) -> None:
    assert failed(figures(**changed)) == [name]


def test_a_job_that_was_never_readable_counts_as_endless() -> None:
    probes = [Probe(float(at_s), 100.0) for at_s in range(98)]
    assert abuse_judge.live([*probes, Probe(98.0, 700.0)]) == (99, 99, 100.0, 700.0, 700.0)
    lost = abuse_judge.live([*probes, Probe(98.0, None), Probe(99.0, None)])
    assert lost == (100, 98, 100.0, math.inf, math.inf)


def test_the_worst_of_each_few_seconds_is_kept_in_turn() -> None:
    probes = [Probe(10.0, 900.0), Probe(14.9, 300.0), Probe(15.0, 40.0), Probe(21.0, None)]
    assert abuse_judge.worst_ms(probes, 10.0) == [900.0, 40.0, math.inf]


def test_only_right_answers_have_times_and_all_that_were_asked_count() -> None:
    seen = [
        Seen("sql", 1.0, 10.0, "200"),
        Seen("sql", 2.0, 10_000.0, "503"),
        Seen("jobs", 2.0, 30.0, "200"),
        Seen("sql", 3.0, 5_000.0, UNANSWERED),
        Seen("sql", 4.0, 20.0, UNANSWERED),  # asked when the run ended
    ]
    assert abuse_judge.answers(seen, "sql") == (3, 1, 10.0, 10.0, 10.0)
    assert abuse_judge.outcomes(seen, "sql") == {"200": 1, "503": 1, UNANSWERED: 2}


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_failure_is_shown_and_a_pipe_has_no_frames(is_terminal: bool) -> None:
    file = io.StringIO()
    found = figures({"live": FAST._replace(p99_ms=math.inf, max_ms=math.inf)})
    show(found, Console(file=file, width=160, force_terminal=is_terminal))
    said = file.getvalue()
    assert "FAILS" in said
    assert "never" in said
    assert "2,000 idle, 200 slow, 64 deaf, 8 with bombs, 1 guessing, from 16 addresses" in said
    assert ("│" in said) == is_terminal


def test_figures_fit_into_json() -> None:
    assert plain({"a": [FAST._replace(max_ms=math.inf)]}) == {
        "a": [{"asked": 10, "right": 10, "p50_ms": 5.0, "p99_ms": 9.0, "max_ms": None}]
    }


def test_a_question_is_in_each_phase_that_it_waits_in() -> None:
    phases = [Phase(begin_s, begin_s + 4, 0, 0, 0.0) for begin_s in (0, 4, 8, 12)]
    seen = [
        Seen("sql", 3.0, 5_500.0, "200")
    ]  # longer than a phase: it is asked in the first and answered in the third
    assert [abuse_judge.answers(phase.of(seen), "sql").asked for phase in phases] == [1, 1, 1, 0]
