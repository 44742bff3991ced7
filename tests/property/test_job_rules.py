"""The rules about attempts, traffic, deadlines and prices against the plain judge, and its thresholds one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables import ALERTS
from tests.oracle import burn as plain_burn
from tests.oracle import job_rules as plain
from tests.oracle import judge as plain_judge
from tests.oracle.cases import T0, job
from tests.oracle.knowledge import in_log_time
from tests.oracle.model import HOUR_MS
from tests.property.job_rule_stories import story
from tests.property.profile import PROFILE
from tests.property.test_alerts import alerts_differ, check
from tests.property.watching import Watching

RULES = {"retry_loop", "runaway_length", "traffic", "price_basis", "unpriced", "silent_job"}


@PROFILE
@given(st.integers(0, 10**6))
def test_any_story_in_pieces_with_crashes(seed: int) -> None:
    lines, rng = story(seed), random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(lines)), min(len(lines) - 1, rng.randrange(4))))
    check(lines, cuts, {cut: rng.randrange(3) for cut in cuts if rng.random() < 0.7})


def _changed(rule: str, name: str, value: Fraction) -> dict[str, dict[str, Fraction]]:
    return plain.DEFAULTS | {rule: plain.DEFAULTS[rule] | {name: value}}


#: Each threshold beside itself: what a judge that is off by one would have.
OFF_BY_ONE: tuple[tuple[str, str, Fraction], ...] = (
    ("retry_loop", "failures", Fraction(4)),
    ("retry_loop", "failures", Fraction(2)),
    ("retry_loop", "preemptions", Fraction(7)),
    ("retry_loop", "lost_usd", Fraction(50)),
    ("runaway_length", "hours", Fraction(169)),
    ("runaway_length", "grace_minutes", Fraction(1)),
    ("traffic", "usd_per_hour", Fraction(6)),
    ("traffic", "ratio", Fraction("1.1")),
    ("price_basis", "rise_ratio", Fraction("0.99")),
    ("price_basis", "rise_ratio", Fraction("2.3")),
    ("unpriced", "traffic", Fraction(0)),
    ("silent_job", "minutes", Fraction(11)),
    ("silent_job", "never_heard_minutes", Fraction(30)),
)


@pytest.fixture(scope="module")
def fed() -> list[Watching]:
    """Enough stories that each rule fires in some."""
    found = []
    for seed in range(150):
        watching = Watching(in_log_time([*story(seed), *_week(seed)]))
        watching.feed(len(watching.told))
        watching.checkpoint()
        assert alerts_differ(watching, watching.told) == []
        found.append(watching)
    assert {row["rule"] for watching in found for row in watching.rows(ALERTS)} >= RULES
    return found


def _week(seed: int) -> list:  # type: ignore[type-arg]  # lines
    """One story goes on for more than a week."""

    return (
        [job("other", "started", T0 + 10**7, gpu_count=1), job("x", "queued", T0 + 175 * HOUR_MS)]
        if seed == 0
        else []
    )


@pytest.mark.parametrize(("rule", "name", "value"), OFF_BY_ONE)
def test_a_threshold_off_by_one_is_found_out(
    fed: list[Watching], rule: str, name: str, value: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "DEFAULTS", _changed(rule, name, value))
    assert any(alerts_differ(watching, watching.told) for watching in fed)


def _never_done(rules: plain.AttemptRules, at_ms: int) -> bool:
    return _retries(
        plain.AttemptRules(rules.broken, 2**62, rules.risen, rules.deadline_ms, rules.limits), at_ms
    )


_retries = plain.AttemptRules.retries
_broken = plain._broken


def _half_an_hour(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "HOUR_MS", 1_800_000)


def _nothing_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "_broken", lambda *a: [b._replace(lost=Fraction(0)) for b in _broken(*a)])


def _not_cleared_when_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain.AttemptRules, "retries", _never_done)


def _preemptions_are_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "_broken", lambda *a: [b._replace(failed=True) for b in _broken(*a)])


def _samples_hold_not(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_burn, "METERED_HOLDS_MS", 0)


def _ended_jobs_move(patch: pytest.MonkeyPatch) -> None:
    facts = plain_judge.FACTS | {"traffic": ("page", plain_burn.Burn.overtaken)}
    patch.setattr(plain_judge, "FACTS", facts)


def _sustained_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_judge, "SUSTAINED_WAITS_MS", 0)


BREAKS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    _half_an_hour, _nothing_lost, _not_cleared_when_done, _preemptions_are_failures, _samples_hold_not, _ended_jobs_move,
)  # fmt: skip


@pytest.mark.parametrize("broken", BREAKS)
def test_a_rule_without_a_part_of_it_is_found_out(
    fed: list[Watching], broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert any(alerts_differ(watching, watching.told) for watching in fed)
