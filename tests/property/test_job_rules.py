"""The rules about attempts, traffic, deadlines and prices against the plain judge, and its thresholds one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.tables import ALERTS
from tests.oracle import burn as plain_burn
from tests.oracle import idle as plain_idle
from tests.oracle import job_rules as plain
from tests.oracle import judge as plain_judge
from tests.oracle.cases import T0, gpu, job
from tests.oracle.knowledge import in_log_time
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.oracle.pace import reported
from tests.oracle.timeline import Attempt
from tests.oracle.unsaved import Unsaved, unsaved
from tests.property.breaking import FedLogs, Patch
from tests.property.job_rule_stories import KINDS, PRICES, story
from tests.property.profile import PROFILE
from tests.property.test_alerts import alerts_differ, check
from tests.property.watching import Watching
from tests.strategies.logs import time_of

#: These have logs of their own.
RULES = set(plain_judge.FACTS) - {"idle_gpus", "traffic"}


@PROFILE
@given(st.integers(0, 10**6))
@example(531)  # a job that was long and ended runs on within ten minutes: it is the same episode
@example(3475)  # GPUs idle for longer than the wait, with a minute of work in it
def test_any_story_in_pieces_with_crashes(seed: int) -> None:
    lines, rng = story(seed), random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(lines)), min(len(lines) - 1, rng.randrange(4))))
    check(lines, cuts, {cut: rng.randrange(3) for cut in cuts if rng.random() < 0.7})


def test_an_attempt_is_compared_with_the_last_one_that_ended_with_another_purchase() -> None:
    lines = [
        job("j", "started", T0 + n * HOUR_MS, attempt=n + 1, gpu_count=8, purchase=purchase)
        for n, purchase in enumerate(("spot", "spot", "on_demand"))
    ]
    changed = job("j", "updated", T0 + HOUR_MS + 30 * MINUTE_MS, attempt=2, purchase="on_demand")
    watching = check(sorted([*PRICES, *lines, changed, job("x", "queued", T0 + 4 * HOUR_MS)], key=time_of))
    # The third one pays as the second one did in the end, and more than the first one.
    (row,) = (row for row in watching.rows(ALERTS) if row["rule"] == "price_basis")
    assert round(row["started"].timestamp() * 1000) == T0 + 2 * HOUR_MS


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
    ("price_basis", "rise_ratio", Fraction("0.99")),
    ("price_basis", "rise_ratio", Fraction("2.3")),
    ("price_basis", "instance_ratio", Fraction("1.8")),
    ("price_basis", "instance_usd_per_hour", Fraction(20)),
    ("price_basis", "instance_usd_per_hour", Fraction(90)),
    ("unpriced", "traffic", Fraction(0)),
    ("silent_job", "minutes", Fraction(11)),
    ("silent_job", "never_heard_minutes", Fraction(30)),
    ("no_checkpoint", "hours", Fraction(7)),
    ("no_checkpoint", "least_usd", Fraction(101)),
    ("ceiling", "usd_per_hour", Fraction(525)),
    ("held", "minutes", Fraction(31)),
    ("held", "least_usd_per_hour", Fraction(2)),
    ("held", "page_usd_per_hour", Fraction(120)),
    ("stalled", "minutes", Fraction(16)),
    ("stalled", "usual_times", Fraction(8)),
    ("stalled", "least_usd", Fraction(30)),
    ("stalled", "least_usd_per_hour", Fraction(20)),
    ("stalled", "page_usd_per_hour", Fraction(120)),
    ("ceiling", "minutes", Fraction(7)),
    ("retry_loop", "page_usd_per_hour", Fraction(1000)),
    ("retry_loop", "ticket_usd_per_hour", Fraction(1000)),
    ("retry_loop", "saving_page_usd_per_hour", Fraction(1000)),
    ("no_checkpoint", "page_usd_per_hour", Fraction(2)),
    ("no_checkpoint", "ticket_usd_per_hour", Fraction(1000)),
    ("runaway_length", "page_usd_per_hour", Fraction(2)),
    ("runaway_length", "ticket_usd_per_hour", Fraction(1000)),
    ("silent_job", "page_usd_per_hour", Fraction(2)),
    ("silent_job", "ticket_usd_per_hour", Fraction(1000)),
    ("retry_loop", "slow_hours", Fraction(2)),
    ("retry_loop", "slow_usd_per_hour", Fraction(130)),
    ("slow_progress", "minutes", Fraction(70)),
    ("slow_progress", "times", Fraction(3)),
    ("slow_progress", "least_usd", Fraction(40)),
    ("slow_progress", "least_usd_per_hour", Fraction(40)),
    ("slow_progress", "page_usd_per_hour", Fraction(250)),
    ("silent_job", "usual_times", Fraction(4)),
    ("silent_job", "first_minutes", Fraction(40)),
    ("no_checkpoint", "usual_times", Fraction(4)),
)


#: Stories that show all that is broken here, found by a search through all: they come first.
SHOWING = (40, 114, 54, 31, 63, 37, 22, 80, 1, 18, 29, 178, 20, 79, 49, 15, 131, 139, 170)
STORIES = 120
#: The seed of a log of loops that save most of their work.
SAVING = -1


@pytest.fixture(scope="module")
def attempts() -> FedLogs:
    """Enough stories that each rule about attempts and traffic fires in some."""
    others = [seed for seed in range(1, STORIES) if seed not in SHOWING]
    found = FedLogs(
        lambda seed: in_log_time(_saving_loops() if seed == SAVING else [*story(seed, KINDS), *_week(seed)]),
        alerts_differ,
        # The week of the first seed is long to judge.
        [SAVING, *SHOWING, 0, *others],
    )
    lacking = RULES - {row["rule"] for seed in SHOWING for row in found.fed(seed).rows(ALERTS)}
    assert not lacking, f"in no story of `SHOWING`: {lacking}; see tests/property/job_rule_stories.py"
    return found


def _sampled(job_id: str, util: float, gpu_count: int, pause_min: int, **labels: str) -> list[Line]:
    """Two GPUs sampled for 160 min; after 100 of them the job gives its GPUs back for a while, if at all."""
    about = {"purchase": "on_demand"}
    lines = [*PRICES, job(job_id, "started", T0, gpu_count=gpu_count, labels=labels, **about)]
    for minute in range(5, 165, 5):
        use = {"0": util, "1": util}
        lines.append(gpu(job_id, T0 + minute * 60_000, 300_000, use, id=f"s{minute}", **about))
    if pause_min:
        lines.append(job(job_id, "suspended", T0 + 100 * 60_000 + 1))
        lines.append(job(job_id, "resumed", T0 + (100 + pause_min) * 60_000))
    return sorted([*lines, job("other", "queued", T0 + 4 * HOUR_MS)], key=time_of)


def _fallen(
    job_id: str, purchase: str, busy: float, rest: tuple[float, float], one: float | None = None
) -> list[Line]:
    """64 GPUs of two nodes that work for half an hour, and then do what is left; `one`: what the first GPU does then."""
    lines = [*PRICES, job(job_id, "started", T0, gpu_count=64, purchase=purchase)]
    for minute in range(1, 60):
        for node, util in enumerate((busy, busy) if minute <= 30 else rest):
            use = dict.fromkeys(map(str, range(32)), util)
            if one is not None and minute > 30 and not node:
                use["0"] = one
            lines.append(gpu(job_id, T0 + minute * 60_000, 60_000, use, node=f"n{node}", purchase=purchase))
    return sorted([*lines, job("other", "queued", T0 + HOUR_MS)], key=time_of)


def _hung(job_id: str, work: tuple[float, ...], pause_min: int = 0) -> list[Line]:
    """64 GPUs that do nothing after the first minutes of a job, if there are any, and the pause after them."""
    lines = [*PRICES, job(job_id, "started", T0, gpu_count=64, purchase="on_demand")]
    for minute in range(49):
        if not len(work) <= minute < len(work) + pause_min:
            use = dict.fromkeys(map(str, range(64)), work[minute] if minute < len(work) else 0.0)
            attempt = 1 if minute < len(work) or not pause_min else 2
            at_ms = T0 + (minute + 1) * 60_000
            lines.append(gpu(job_id, at_ms, 60_000, use, attempt=attempt, purchase="on_demand"))
    if pause_min:
        lines.append(job(job_id, "preempted", T0 + len(work) * 60_000))
        again = T0 + (len(work) + pause_min) * 60_000
        lines.append(job(job_id, "started", again, attempt=2, gpu_count=64, purchase="on_demand"))
    return sorted([*lines, job("other", "queued", T0 + HOUR_MS)], key=time_of)


def _resting(job_id: str) -> list[Line]:
    """Eight GPUs of which one does nothing any more after 10 min."""
    lines = [*PRICES, job(job_id, "started", T0, gpu_count=8, purchase="on_demand")]
    for minute in range(5, 165, 5):
        use = dict.fromkeys("01234567", 0.9) | ({"3": 0.0} if minute > 10 else {})
        lines.append(gpu(job_id, T0 + minute * 60_000, 300_000, use, purchase="on_demand"))
    return sorted([*lines, job("other", "queued", T0 + 3 * HOUR_MS)], key=time_of)


IDLING = (
    (0.2, 2, 0), (0.195, 2, 0), (0.0, 5, 0), (0.0, 3, 0), (0.0, 2, 1), (0.0, 2, 20), (0.0, 1, 0),
)  # fmt: skip
FALLEN: tuple[tuple[str, float, tuple[float, float], float | None], ...] = (
    ("on_demand", 0.9, (0.0, 0.0), None), ("spot", 0.9, (0.0, 0.0), None), ("spot", 0.4, (0.0, 0.0), None),
    ("spot", 0.9, (0.021, 0.0), None), ("reserved", 0.9, (0.021, 0.021), None),
    ("spot", 0.9, (0.0, 0.0), 1.0), ("spot", 1.0, (0.0, 0.0), 1.0), ("spot", 0.9, (0.0, 0.0), 0.99),
    ("on_demand", 0.55, (0.0, 0.0), None),
)  # fmt: skip
#: What the GPUs do in each of the first minutes, and for how many the job does not run then.
HUNG: tuple[tuple[tuple[float, ...], int], ...] = (((), 0), ((0.9,) * 8, 4), ((0.03,) * 3, 0))


@pytest.fixture(scope="module")
def idling() -> list[Watching]:
    """Jobs that are just idle, and just not."""
    logs = [_sampled(f"j{number}", *each) for number, each in enumerate(IDLING)]
    logs += [_sampled("notebook", 0.0, 2, 0, interactive="true"), _sampled("no", 0.0, 2, 0, interactive="no")]
    logs += [_fallen(f"f{number}", *each) for number, each in enumerate(FALLEN)]
    logs.append(_resting("rests"))
    logs += [_hung(f"h{number}", *each) for number, each in enumerate(HUNG)]
    found = []
    for lines in logs:
        watching = Watching(in_log_time(lines))
        watching.feed(len(watching.told))
        watching.checkpoint()
        assert alerts_differ(watching, watching.told) == []
        found.append(watching)
    fired = [
        [
            (round((row["started"].timestamp() * 1000 - T0) / MINUTE_MS), row["severity"])
            for row in watching.rows(ALERTS)
            if row["rule"] == "idle_gpus"
        ]
        for watching in found
    ]
    assert fired == FIRED
    return found


#: The minute at which the alert of each of these logs fires, and as what.
FIRED = [
    [], [(53, "ticket")], [], [(53, "ticket")], [(55, "ticket"), (155, "ticket")], [(54, "ticket")], [(85, "ticket")],
    [(122, "ticket")], [(55, "ticket")], [(48, "page")], [(45, "page")], [], [], [],
    [(44, "page")], [], [], [(48, "page")], [(135, "ticket")], [(37, "page")], [(48, "page")], [(55, "page")],
]  # fmt: skip


def _week(seed: int) -> list:  # type: ignore[type-arg]  # lines
    """One story goes on for more than a week."""

    if seed:
        return []
    return [
        job("other", "started", T0 + 10**7, gpu_count=1),
        # One that saves once and then no more, and one on spot that never does and costs little.
        job("saver", "started", T0, gpu_count=8, purchase="on_demand"),
        job("saver", "checkpointed", T0 + HOUR_MS),
        job("small", "started", T0, gpu_count=1, purchase="spot"),
        job("dear", "started", T0 + 5 * HOUR_MS, gpu_count=125, purchase="on_demand"),  # $512.50 an hour
        job("dear", "completed", T0 + 6 * HOUR_MS),
        job("x", "queued", T0 + 175 * HOUR_MS),
    ]


def _saving_loops() -> list[Line]:
    """Two loops that save most of their work: one loses more than $100/h all the same."""
    lines = [*PRICES, *_saving("saves", 8), *_saving("dear-saves", 125)]
    return sorted([*lines, job("x", "queued", T0 + 4 * HOUR_MS)], key=time_of)


def _saving(job_id: str, gpu_count: int) -> list[Line]:
    """A job that fails every 20 min, six minutes after it saved its work."""
    lines = []
    for attempt in range(1, 5):
        at_ms, of = T0 + 20 * attempt * MINUTE_MS, {"attempt": attempt}
        lines += [
            job(job_id, "started", at_ms, gpu_count=gpu_count, purchase="on_demand", **of),
            job(job_id, "checkpointed", at_ms + 13 * MINUTE_MS, **of),
            job(job_id, "failed", at_ms + 19 * MINUTE_MS, **of),
        ]
    return lines


@pytest.mark.parametrize(("rule", "name", "value"), OFF_BY_ONE)
def test_a_threshold_off_by_one_is_found_out(
    attempts: FedLogs, rule: str, name: str, value: Fraction
) -> None:
    changed = _changed(rule, name, value)
    assert attempts.find_out(lambda patch: patch.setattr(plain, "DEFAULTS", changed))


def test_each_threshold_is_off_by_one_in_some_case() -> None:
    tried = {(rule, name) for rule, name, _ in OFF_BY_ONE}
    lacking = {(rule, name) for rule in RULES for name in plain.DEFAULTS[rule]} - tried
    assert not lacking, f"add a value beside each of them to the end of `OFF_BY_ONE`: {sorted(lacking)}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("productive_ratio", Fraction("0.19")),
        ("productive_ratio", Fraction("0.21")),
        ("minutes", Fraction(51)),
        ("interactive_minutes", Fraction(121)),
        ("least_usd", Fraction(6)),
        ("fallen_minutes", Fraction(18)),
        ("start_minutes", Fraction(24)),
        ("gpu_minutes", Fraction(140)),
        ("page_usd_per_hour", Fraction(120)),
    ],
)
def test_a_threshold_of_idle_gpus_that_is_off_is_found_out(
    idling: list[Watching], name: str, value: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "DEFAULTS", _changed("idle_gpus", name, value))
    assert any(alerts_differ(watching, watching.told) for watching in idling)


def _never_done(rules: plain.AttemptRules, at_ms: int) -> bool:
    return _retries(replace(rules, done_ms=2**62), at_ms)


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


def _saved_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """Only attempts that made a checkpoint themselves are expected to."""

    def own(attempts: Sequence[Attempt], *known: Any) -> list[Unsaved]:
        return [each for attempt in attempts for each in unsaved([attempt], *known)]

    patch.setattr(plain, "unsaved", own)


def _unsaved_though_suspended(patch: pytest.MonkeyPatch) -> None:
    always = [(0, 2**62)]
    patch.setattr(plain, "unsaved", lambda *a: [each._replace(running=always) for each in unsaved(*a)])


def _saved_as_often_as_any(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "unsaved", lambda *a: [each._replace(usual_ms=0) for each in unsaved(*a)])


def _held_though_released(patch: pytest.MonkeyPatch) -> None:
    """What a suspended job holds is not asked for."""
    suspended = plain._holding
    patch.setattr(plain, "_holding", lambda *a: [each._replace(end_ms=2**62) for each in suspended(*a)])


def _held_anew(patch: pytest.MonkeyPatch) -> None:
    """Each change of a suspended job begins its time anew."""
    patch.setattr(plain, "union", lambda spans: list(spans))


def _checkpoints_are_no_progress(patch: pytest.MonkeyPatch) -> None:
    def without(events: Any) -> Any:
        return reported({**each, "type": "heartbeat"} for each in events)

    patch.setattr(plain_burn, "reported", without)


def _stalled_though_suspended(patch: pytest.MonkeyPatch) -> None:
    """Reports of before it was resumed count as well."""
    still = plain._still

    def since_the_report(*a: Any) -> Any:
        found = still(*a)
        return found and found._replace(start_ms=found.last.from_ms)

    patch.setattr(plain, "_still", since_the_report)


def _samples_hold_not(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_burn, "METERED_HOLDS_MS", 0)


def _judge_by(patch: pytest.MonkeyPatch, rule: str, holds: Callable[[plain_burn.Burn, int], bool]) -> None:
    severity, _ = plain_judge.FACTS[rule]
    patch.setitem(plain_judge.FACTS, rule, (severity, holds))


def _idle_though_unsampled(patch: pytest.MonkeyPatch) -> None:
    idles = plain_burn.Burn.idles
    _judge_by(patch, "idle_gpus", lambda now, at_ms: idles(replace(now, held=[]), at_ms))


def _idle_though_unpaid(patch: pytest.MonkeyPatch) -> None:
    idles = plain_burn.Burn.idles
    _judge_by(patch, "idle_gpus", lambda now, at_ms: idles(replace(now, paid=[(0, 2**62)]), at_ms))


def _fallen_on_one_node(patch: pytest.MonkeyPatch) -> None:
    """What is left of the work of all GPUs is less than the share, if not that of each node."""
    fallen = plain_idle._fallen

    def of_one(view: plain_idle.IdleView) -> bool:
        minutes = {minute for rows in view.used.values() for minute in rows}
        sums = {m: view.sums(m, m + 1) for m in minutes}
        return fallen(view._replace(used={(1, ""): {m: (s, p, p, False) for m, (s, p) in sums.items()}}))

    patch.setattr(plain_idle, "_fallen", of_one)


def _fallen_though_never_busy(patch: pytest.MonkeyPatch) -> None:
    fallen = plain_idle._fallen

    def thrice_as_busy(view: plain_idle.IdleView) -> bool:
        used = {
            key: {m: (s, p * 3, w * 3, of) for m, (s, p, w, of) in rows.items()}
            for key, rows in view.used.items()
        }
        return fallen(view._replace(used=used))

    patch.setattr(plain_idle, "_fallen", thrice_as_busy)


def _fallen_before_it_was_begun_again(patch: pytest.MonkeyPatch) -> None:
    """What it did in an earlier run counts as work of this one."""
    fallen = plain_idle._fallen
    patch.setattr(plain_idle, "_fallen", lambda view: fallen(view._replace(paid_since_ms=0)))


def _one_that_waits_works(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_idle.IdleView, "waits", lambda _: set())


def _one_that_works_waits(patch: pytest.MonkeyPatch) -> None:
    """Also where all of them worked without a break before."""
    fallen = plain_idle._fallen

    def unbroken(view: plain_idle.IdleView) -> bool:
        used = {
            key: {m: (s, p - p // 40 if p == s else p, w, of) for m, (s, p, w, of) in rows.items()}
            for key, rows in view.used.items()
        }
        return fallen(view._replace(used=used))

    patch.setattr(plain_idle, "_fallen", unbroken)


def _looked_at_always(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_burn.Burn, "looked_at", lambda *_: True)


def _told_at_each_attempt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_judge.JobJudge, "_is_told_of", lambda *_: False)


def _told_of_once(patch: pytest.MonkeyPatch) -> None:
    """Not again at twice the age, nor after another deadline."""
    patch.setattr(plain_judge.JobJudge, "_is_told_of", lambda judge, *_: judge._runaway is not None)


BREAKS: tuple[Patch, ...] = (
    _half_an_hour, _nothing_lost, _not_cleared_when_done, _preemptions_are_failures, _samples_hold_not,
    _saved_elsewhere, _unsaved_though_suspended, _saved_as_often_as_any, _held_though_released, _held_anew,
    _checkpoints_are_no_progress, _stalled_though_suspended, _told_at_each_attempt, _told_of_once,
)  # fmt: skip
IDLE_BREAKS: tuple[Patch, ...] = (
    _idle_though_unsampled, _idle_though_unpaid, _looked_at_always, _fallen_on_one_node, _fallen_though_never_busy,
    _fallen_before_it_was_begun_again, _one_that_waits_works, _one_that_works_waits,
)  # fmt: skip


@pytest.mark.parametrize("broken", BREAKS)
def test_a_rule_without_a_part_of_it_is_found_out(attempts: FedLogs, broken: Patch) -> None:
    assert attempts.find_out(broken)


@pytest.mark.parametrize("broken", IDLE_BREAKS)
def test_idleness_without_a_part_of_it_is_found_out(
    idling: list[Watching], broken: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert any(alerts_differ(watching, watching.told) for watching in idling)
