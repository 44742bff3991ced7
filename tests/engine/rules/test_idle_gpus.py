"""`idle_gpus` skips jobs that are known to be busy, and its alerts stay the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schemas.tables import ALERTS
from streams.engine.coverage.coverage import Coverage, RecentUsage
from streams.engine.kernels.arrays import F64
from streams.engine.kernels.episode import TICK_MS
from streams.engine.rules.turns import TURNS
from tests.oracle.cases import T0, gpu, job
from tests.oracle.knowledge import in_log_time
from tests.oracle.model import MINUTE_MS, Line
from tests.property.job_rule_stories import PRICES
from tests.property.test_alerts import alerts_differ
from tests.property.watching import Watching
from tests.strategies.logs import time_of

M = MINUTE_MS
HOURS_MIN = 180
JOBS = 6
EACH = {f"j{number}" for number in range(JOBS)}


def _phases(*minutes: int) -> list[Line]:
    """Samples of each job while it works and idles by turns, each for so many minutes."""
    ends = [sum(minutes[: place + 1]) for place in range(len(minutes))]
    of = [(sum(minute >= end for end in ends), minute) for minute in range(ends[-1])]
    return [
        gpu(name, T0 + (minute + 1) * M, M, {"0": 1.0 - phase % 2}, id=f"{name}.{minute}")
        for phase, minute in of
        for name in sorted(EACH)
    ]


def _sampled(*, util: float = 1.0, node: str = "n1", from_min: int = 0, gpus: int = 1) -> list[Line]:
    """A sample of some GPUs of each job each minute."""
    return [
        gpu(
            f"j{number}",
            T0 + minute * M,
            M,
            {str(at): util for at in range(gpus)},
            node=node,
            id=f"{node}.{number}.{minute}",
        )
        for minute in range(from_min + 1, HOURS_MIN)
        for number in range(JOBS)
    ]


def _idle(*lines: Line, until_min: int = HOURS_MIN) -> set[str]:
    """Return the jobs with an alert of `idle_gpus`; all alerts must equal those of the oracle."""
    return {*_alerts(*lines, until_min=until_min)}


def _alerts(*lines: Line, until_min: int) -> list[str]:
    """The same, once for each alert."""
    started = [job(f"j{number}", "started", T0, gpu_count=1, purchase="spot") for number in range(JOBS)]
    any_cost = {"kind": "rule", "name": "any", "rule": "idle_gpus", "thresholds": {"least_usd": 0}}
    started.append(Line("controls", {"source": "r", "id": "any", "time_ms": T0} | any_cost))
    ordered = sorted([*PRICES, *started, *lines, job("o", "queued", T0 + until_min * M)], key=time_of)
    watching = Watching(in_log_time(ordered))
    watching.feed(len(ordered))
    watching.checkpoint()
    assert alerts_differ(watching, watching.told) == []
    return [row["subject_name"] for row in watching.rows(ALERTS) if row["rule"] == "idle_gpus"]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs whose samples were read, one by one."""
    found: list[str] = []
    reads = Coverage.recent_usage

    def read(coverage: Coverage, ids: Sequence[str], lo: int, hi: int, ratio: F64) -> RecentUsage:
        found.extend(ids)
        return reads(coverage, ids, lo, hi, ratio)

    monkeypatch.setattr(Coverage, "recent_usage", read)
    return found


EVERY_TURN = JOBS * (HOURS_MIN - 20) * MINUTE_MS // (TURNS * TICK_MS)


def test_the_samples_of_jobs_that_work_are_read_at_few_turns(looks: list[str]) -> None:
    assert _idle(*_sampled()) == set()
    assert JOBS <= len(looks) < EVERY_TURN * 2 / 3


def test_the_samples_of_jobs_that_are_idle_are_read_at_each_turn(looks: list[str]) -> None:
    assert _idle(*_sampled(util=0.1)) == EACH
    assert len(looks) >= EVERY_TURN - JOBS


def test_gpus_that_join_are_seen_idle_at_the_next_turn() -> None:
    joined = _sampled(util=0.0, node="n2", from_min=100, gpus=64)
    assert _idle(*_sampled(), *joined) == EACH


def test_a_share_that_is_raised_holds_from_the_next_turn_on() -> None:
    raised = {"rule": "idle_gpus", "thresholds": {"productive_ratio": 0.9}}
    control = Line(
        "controls", {"kind": "rule", "name": "r", "time_ms": T0 + 100 * M, "source": "r", "id": "r"} | raised
    )
    assert _idle(*_sampled(util=0.5), control) == EACH


def test_of_several_turns_in_one_batch_each_has_its_own_figures() -> None:
    """The alert opens at the first one, with what was wasted then."""
    use = dict.fromkeys(map(str, range(64)), 0.19)
    lines = [
        *PRICES,
        job("j", "started", T0, gpu_count=64, purchase="spot"),
        gpu("j", T0 + 55 * M, 55 * M, use, purchase="spot"),
        job("o", "queued", T0 + 90 * M),
    ]
    watching = Watching(in_log_time(lines))
    watching.feed(len(lines))
    watching.checkpoint()
    assert alerts_differ(watching, watching.told) == []
    (row,) = (row for row in watching.rows(ALERTS) if row["rule"] == "idle_gpus")
    assert row["severity"] == "ticket", "of $115.20 an hour $93.31 is wasted"


@pytest.mark.parametrize(
    ("before", "left", "sm", "is_paged"),
    [
        (0.85, {"0": 1.0}, None, True),
        (0.85, {"0": 1.0, "1": 0.004}, None, True),
        (0.98, {"0": 1.0}, None, True),
        (0.85, {}, None, True),
        (1.0, {"0": 1.0}, None, False),
        (0.85, {"0": 0.99}, None, False),
        (0.85, {"0": 1.0, "1": 0.02}, None, False),
        (0.85, {"0": 1.0, "1": 1.0}, None, False),
        (0.85, {"0": 1.0}, 0.6, False),
        (0.85, {"0": 1.0}, 0.05, True),
    ],
    ids=[
        "one without a break",
        "beside next to nothing",
        "busy before",
        "all fell",
        "all worked without a break",
        "a break",
        "another one does a little",
        "two",
        "its multiprocessors work",
        "they do not",
    ],
)
def test_a_rank_that_waits_looks_busy_without_a_break(
    before: float, left: dict[str, float], sm: float | None, is_paged: bool
) -> None:
    """64 GPUs work for half an hour; for 25 min hardly any does, which is less than the 50 that work on few GPUs may take."""
    lines = [*PRICES, job("j", "started", T0, gpu_count=64, purchase="spot")]
    for minute in range(1, 56):
        for node in range(2):
            works = minute <= 30
            use = dict.fromkeys(map(str, range(32)), before if works else 0.0)
            if node and not works:
                use |= left
            active = [(0.5 if works else sm) if util else 0.0 for util in use.values()]
            activity = {} if sm is None else {"sm_ratio": active}
            lines.append(gpu("j", T0 + minute * M, M, use, node=f"n{node}", purchase="spot", **activity))
    ordered = sorted([*lines, job("o", "queued", T0 + 55 * M)], key=time_of)
    watching = Watching(in_log_time(ordered))
    watching.feed(len(ordered))
    watching.checkpoint()
    assert alerts_differ(watching, watching.told) == []
    found = [row for row in watching.rows(ALERTS) if row["rule"] == "idle_gpus"]
    assert [row["severity"] for row in found] == ["page"] * is_paged


@pytest.mark.parametrize(
    ("holds_gpus", "resumed_min", "idle"), [(True, 100, set()), (True, 60, EACH), (False, 100, set())]
)
def test_gpus_of_a_suspended_job_are_not_idle_and_count_from_where_it_is_resumed(
    holds_gpus: bool, resumed_min: int, idle: set[str]
) -> None:
    until = 145
    lines = [
        *(line for line in _sampled(util=0.0) if time_of(line) < T0 + until * M),
        *(job(name, "suspended", T0 + 2 * M, holds_gpus=holds_gpus) for name in sorted(EACH)),
        *(job(name, "resumed", T0 + resumed_min * M) for name in sorted(EACH)),
        *(job(name, "completed", T0 + until * M) for name in sorted(EACH)),
    ]
    assert _idle(*lines) == idle


@pytest.mark.parametrize(
    ("minutes", "times"),
    [
        ((20, 65, 20, 65, 20), 1),
        ((20, 40, 20, 65, 20), 1),
        ((20, 65, 20, 115, 20), 2),
        ((20, 130, 20, 165, 20), 1),
        ((20, 130, 20, 215, 20), 2),
    ],
    ids=["as long", "the first was short", "longer", "less than 1.5 times", "for three hours"],
)
def test_a_phase_that_is_as_long_as_those_before_opens_no_alert(minutes: Sequence[int], times: int) -> None:
    told = _alerts(*_phases(*minutes), until_min=sum(minutes) + 5)
    assert len(told) == times * JOBS
    assert {*told} == EACH


def test_time_without_samples_or_suspended_is_no_phase() -> None:
    """Else GPUs that idle for an hour after two such hours would be as usual."""
    suspended = [
        job(name, kind, T0 + at * M, **held)
        for name in sorted(EACH)
        for kind, at, held in (("suspended", 150, {"holds_gpus": True}), ("resumed", 270, {}))
    ]
    away = range(21, 140)
    lines = [line for line in _phases(20, 125, 5, 120, 20, 70, 20) if (time_of(line) - T0) // M not in away]
    assert _idle(*lines, *suspended, until_min=400) == EACH
