"""Alerts of one cause become one incident when the plain oracle says so, however the minutes are cut and whenever they are judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.engine.alerts.alert import FIRING, RESOLVED, Alert
from streams.engine.alerts.openings import OPENINGS
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS
from streams.engine.ledger_rules.incidents import incident_changes
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.incident import EXPECTED_MS, RULE, RUN_ALERTS, SharedAlert
from streams.engine.rules.rule import DIGEST, PAGE
from streams.engine.rules.shared_cause import cause_text
from tests.oracle.incidents import Fired, Told, incidents
from tests.property.profile import PROFILE

MINUTE_MS = 60_000
END_MS = 60 * MINUTE_MS
ON = LedgerSettings(True, RULE.severity, {"jobs": 3, "page_usd_per_hour": 100})
PRICE, POOL = cause_text("price", "h100"), cause_text("silence", "c1", "p5")
CLUSTER = cause_text("standstill", "c1")
SWEEP = cause_text("sweep", "idle_gpus", "vision", "lr")
#: What is expected of each job that burns.
EXPECTED_USD = 17


def shared(each: Fired, known_ms: int = END_MS, again_ms: int = 0) -> SharedAlert:
    """The stored row as of an instant; an episode may have been over and have begun again since."""
    over_ms = each.resolved_ms if each.resolved_ms is not None and each.resolved_ms < known_ms else None
    if (
        over_ms is None
        and again_ms
        and each.started_ms + again_ms < known_ms <= each.started_ms + 2 * again_ms
    ):
        over_ms = each.started_ms + again_ms
    ticket_ms, page_ms = (
        ms if ms is not None and ms < known_ms else None for ms in (each.ticket_ms, each.page_ms)
    )
    return SharedAlert(
        each.cause,
        "burn_sustained" if each.is_burn else "stalled" if each.usd_per_hour else "silent_job",
        "page" if page_ms is not None else "ticket" if ticket_ms is not None else "digest",
        each.job_id,
        each.owner,
        "vision",
        "",
        each.started_ms,
        over_ms,
        ((each.usd_per_hour or 1) + EXPECTED_USD * each.is_burn) * 10**9,
        _raised_ms(ticket_ms, each.started_ms),
        _raised_ms(page_ms, each.started_ms),
        each.stood_ms,
        expected_nano=EXPECTED_USD * 10**9 if each.is_burn else None,
    )


def _raised_ms(since_ms: int | None, started_ms: int) -> int | None:
    return None if since_ms is None or since_ms <= started_ms else since_ms


def told(changes: Iterable[Alert]) -> list[Told]:
    last = {each.alert_id: each for each in changes}
    return sorted(
        (
            Told(
                each.shared_cause,
                each.started_ms,
                each.resolved_ms,
                round(each.ratio),
                None if each.severity == DIGEST else each.ticket_ms or each.started_ms,
                None if each.severity != PAGE else each.page_ms or each.started_ms,
                each.owner if each.subject_kind == "run" else "",
                each.stood_ms,
            )
            for each in last.values()
        ),
        key=str,
    )


def judged(
    alerts: Sequence[Fired],
    cuts: Iterable[int],
    prices: dict[str, list[int]],
    *,
    live: bool,
    again_ms: int = 0,
    end_ms: int = END_MS,
) -> list[Alert]:
    """What is told of these episodes; `live`: each span knows no more than had happened by its end."""
    changes: list[Alert] = []
    since_ms = 0
    for until_ms in [*sorted(cuts), end_ms]:
        firing = [each for each in {a.alert_id: a for a in changes}.values() if each.status == FIRING]
        first_ms = min([since_ms, *(each.started_ms for each in firing)]) - FLAPS_WITHIN_MS
        rows = [
            shared(each, until_ms if live else end_ms, again_ms)
            for each in alerts
            if first_ms <= each.started_ms < until_ms
        ]
        changes += incident_changes(rows, firing, prices, since_ms, until_ms, ON, {"prices": "pia"})
        since_ms = until_ms
    return changes


EPISODES = st.builds(
    lambda cause, job, tick, length, ticket, page, owner, stood, usd, is_burn: Fired(
        cause,
        f"j{job}",
        tick * 10_000,
        None if length is None else (tick + length) * 10_000,
        None if ticket is None else (tick + ticket) * 10_000,
        None if ticket is None or page is None else (tick + ticket + page) * 10_000,
        owner if cause == CLUSTER else "ada",
        stood if cause == CLUSTER else None,
        usd,
        is_burn and usd > 0,
    ),
    st.sampled_from([PRICE, POOL, SWEEP, CLUSTER]),
    st.integers(0, 4),
    st.integers(0, 200),
    st.one_of(st.none(), st.integers(1, 120)),
    st.one_of(st.just(0), st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.integers(0, 60)),
    st.sampled_from(["", "ada", "bob", "cyd", "dan"]),
    st.one_of(st.none(), st.integers(0, 40).map(lambda half: half * 30_000), st.integers(0, 5)),
    st.sampled_from([0, 0, 10, 30, 33, 34, 40, 90]),
    st.booleans(),
)
CUTS = st.sets(st.integers(1, 59).map(lambda minute: minute * MINUTE_MS), max_size=8)
PRICES = st.lists(st.integers(0, 59).map(lambda minute: minute * MINUTE_MS), max_size=1)
#: One that becomes a ticket just as a minute begins.
ON_THE_MINUTE = [
    Fired(PRICE, "j0", 0, None, None),
    Fired(PRICE, "j1", MINUTE_MS, None, 10 * MINUTE_MS),
    Fired(PRICE, "j2", 2 * MINUTE_MS, None, None),
    Fired(PRICE, "j3", 9 * MINUTE_MS, None, None),
]


@settings(PROFILE)
@given(st.lists(EPISODES, max_size=12, unique_by=lambda each: each[:3]), CUTS, PRICES, st.booleans())
@example(ON_THE_MINUTE, set(), [], False)
@example(ON_THE_MINUTE, {10 * MINUTE_MS}, [], True)
def test_it_tells_what_the_oracle_tells_in_any_cut(
    alerts: list[Fired], cuts: set[int], prices_ms: list[int], live: bool
) -> None:
    prices = {PRICE: prices_ms}
    changes = judged(alerts, cuts, prices, live=live)
    assert told(changes) == incidents(alerts, END_MS, prices_ms=prices)
    assert len({(each.alert_id, each.status, each.severity) for each in changes}) == len(changes), (
        "one change is told twice"
    )


HOURS_MS = 600 * MINUTE_MS
TRIES = st.builds(
    lambda job, tick, length, page, owner: Fired(
        SWEEP,
        f"j{job}",
        tick * 30_000,
        None if length is None else (tick + length) * 30_000,
        page_ms=None if page is None else (tick + page) * 30_000,
        owner=owner,
    ),
    st.integers(0, 5),
    st.integers(0, 900),
    st.one_of(st.none(), st.integers(1, 200), st.integers(1, 30)),
    st.one_of(st.none(), st.integers(0, 60)),
    st.sampled_from(["ada", "ada", "ada", "ada", "bob", ""]),
)
LONG_CUTS = st.sets(st.integers(1, 599).map(lambda minute: minute * MINUTE_MS), max_size=8)


@settings(PROFILE)
@given(st.lists(TRIES, max_size=9, unique_by=lambda each: each[:3]), LONG_CUTS, st.booleans())
def test_alerts_of_a_run_one_after_another_are_what_the_oracle_tells(
    alerts: list[Fired], cuts: set[int], live: bool
) -> None:
    changes = judged(alerts, cuts, {}, live=live, end_ms=HOURS_MS)
    assert told(changes) == incidents(alerts, HOURS_MS)


def tries(*minutes: int, owner: str = "ada", lasts: int = 5) -> list[Fired]:
    """Alerts about one job after another."""
    return [
        Fired(SWEEP, f"t-{number}", at * MINUTE_MS, (at + lasts) * MINUTE_MS, owner=owner)
        for number, at in enumerate(minutes)
    ]


def test_the_fourth_of_a_run_within_three_hours_stays_open_until_an_hour_of_quiet() -> None:
    assert RUN_ALERTS == OPENINGS
    opened, over = judged(tries(0, 40, 90, 150, 170), set(), {}, live=False, end_ms=HOURS_MS)
    assert (opened.subject_kind, opened.started_ms, opened.owner) == ("run", 151 * MINUTE_MS, "ada")
    assert (over.status, over.resolved_ms) == (RESOLVED, (175 + 60) * MINUTE_MS)
    assert opened.summary.startswith(
        "4 alerts in 3 h about 4 jobs of lr: Idle GPUs, the last t-3 at $1.00/h; stays open until 1 h without one; stop or mend the run"
    )


@pytest.mark.parametrize(
    "alerts",
    [
        tries(0, 60, 120, 181),  # the first is too old
        tries(0, 40, 90),
        [*tries(0, 40), *tries(90, 150, owner="bob")],  # of several people
        tries(0, 40, 90, 150, owner=""),
        [each._replace(job_id="t-0") for each in tries(0, 40, 90, 150)],  # one job: its own alert flaps
        [each._replace(cause=POOL) for each in tries(0, 40, 90, 150)],
    ],
)
def test_fewer_and_others_are_no_run(alerts: list[Fired]) -> None:
    assert judged(alerts, set(), {}, live=False, end_ms=HOURS_MS) == []


def test_what_a_sweep_at_one_time_was_told_of_is_no_run_as_well() -> None:
    changes = judged(tries(0, 1, 1, 40, 90), set(), {}, live=False, end_ms=HOURS_MS)
    assert [(each.subject_kind, each.status) for each in changes] == [
        ("sweep", "firing"),
        ("sweep", "resolved"),
    ]


@pytest.mark.parametrize("live", [True, False])
def test_an_episode_that_was_over_and_began_again_keeps_it_open(live: bool) -> None:
    alerts = [Fired(POOL, f"j{number}", MINUTE_MS, 30 * MINUTE_MS) for number in range(3)]
    every_minute = {minute * MINUTE_MS for minute in range(1, 60)}
    changes = judged(alerts, every_minute, {}, live=live, again_ms=5 * MINUTE_MS)
    assert told(changes) == [Told(POOL, 2 * MINUTE_MS, 41 * MINUTE_MS, 3, 2 * MINUTE_MS)]


def test_it_names_the_source_the_dollars_and_the_dearest_and_goes_to_the_operator() -> None:
    rows = [
        shared(Fired(POOL, f"run-{number}", 0, None))._replace(
            nano_per_hour=number * 10**10, owner=f"o{number}"
        )
        for number in range(1, 6)
    ]
    (alert,) = incident_changes(rows, [], {}, 0, MINUTE_MS, ON, {"sources": "ops"})
    assert alert.summary.startswith(
        "5 jobs at $150/h on p5 nodes of cluster c1 fell silent at one time (most: run-5, run-4, run-3)"
    )
    assert (alert.owner, alert.subject_kind, alert.subject_name) == ("ops", "source", "c1/p5")
    assert alert.opened_nano_per_hour == 150 * 10**9
    assert 'WHERE shared_cause = \'["silence","c1","p5"]\'' in alert.evidence_sql


def test_a_sweep_goes_to_who_pays_most_and_is_a_page_if_one_of_its_alerts_is() -> None:
    rows = [
        shared(Fired(SWEEP, f"trial-{number}", 0, None))._replace(nano_per_hour=number, owner=f"o{number}")
        for number in range(3)
    ]
    rows[1] = rows[1]._replace(severity="page")
    (alert,) = incident_changes(rows, [], {}, 0, MINUTE_MS, ON, {"sources": "ops"})
    assert (alert.owner, alert.severity, alert.team) == ("o2", "page", "vision")
    assert "of lr have one alert at one time: Idle GPUs" in alert.summary


def test_two_jobs_three_alerts_of_one_job_and_a_rule_that_is_off_are_none() -> None:
    of_two = [shared(Fired(POOL, f"j{number % 2}", number, None)) for number in range(4)]
    assert incident_changes(of_two, [], {}, 0, END_MS, ON, {}) == []
    of_three = [shared(Fired(POOL, f"j{number}", 0, None)) for number in range(3)]
    assert incident_changes(of_three, [], {}, 0, END_MS, ON._replace(enabled=False), {}) == []
    (alert,) = incident_changes(of_three, [], {}, 0, END_MS, ON, {})
    (over,) = incident_changes([], [alert], {}, END_MS, END_MS + MINUTE_MS, ON, {})
    assert over.status == RESOLVED, "its alerts are gone from the tables"


def test_one_that_becomes_a_page_makes_the_incident_one_and_what_came_alone_later_does_not() -> None:
    began = [Fired(SWEEP, f"j{number}", 0, None) for number in range(3)]
    alone = Fired(SWEEP, "late", 20 * MINUTE_MS, None, page_ms=20 * MINUTE_MS)
    cuts = {minute * MINUTE_MS for minute in range(1, 60)}
    assert [each.severity for each in judged([*began, alone], cuts, {}, live=True)] == ["ticket"]
    began[1] = began[1]._replace(page_ms=30 * MINUTE_MS)
    opened, raised = judged([*began, alone], cuts, {}, live=True)
    assert (opened.severity, raised.severity) == ("ticket", "page")
    assert opened.alert_id == raised.alert_id
    assert (raised.started_ms, raised.page_ms, raised.changed_ms) == (
        MINUTE_MS,
        31 * MINUTE_MS,
        31 * MINUTE_MS,
    )


def test_jobs_that_do_nothing_are_a_page_once_they_pay_enough_together() -> None:
    began = [Fired(SWEEP, f"j{number}", number, None, usd_per_hour=30) for number in range(3)]
    cuts = {minute * MINUTE_MS for minute in range(1, 60)}
    assert [each.severity for each in judged(began, cuts, {}, live=True)] == ["ticket"]
    fourth = Fired(SWEEP, "late", MINUTE_MS, None, usd_per_hour=30)
    opened, raised = judged([*began, fourth], cuts, {}, live=True)
    assert (opened.severity, raised.severity, raised.page_ms) == ("ticket", "page", 2 * MINUTE_MS)
    assert raised.summary.startswith("4 jobs at $120/h")
    again = began[0]._replace(started_ms=9)
    assert [each.severity for each in judged([*began, again], cuts, {}, live=True)] == ["ticket"], (
        "one job twice"
    )
    for_digest = fourth._replace(ticket_ms=None)
    assert [each.severity for each in judged([*began, for_digest], cuts, {}, live=True)] == ["ticket"]


BURNS = [Fired(SWEEP, f"j{number}", number, None, usd_per_hour=33, is_burn=True) for number in range(3)]
FOURTH = Fired(SWEEP, "late", MINUTE_MS, None, usd_per_hour=33, is_burn=True)
EACH_MINUTE = {minute * MINUTE_MS for minute in range(1, 60)}


def test_burns_are_a_page_once_they_pay_enough_above_what_is_expected_together() -> None:
    assert [each.severity for each in judged(BURNS, EACH_MINUTE, {}, live=True)] == ["ticket"], (
        "they pay $150/h, $99/h of it above what is expected"
    )
    opened, raised = judged([*BURNS, FOURTH], EACH_MINUTE, {}, live=True)
    assert (opened.severity, raised.severity, raised.page_ms) == ("ticket", "page", 2 * MINUTE_MS)


def test_it_says_how_much_burns_pay_above_what_is_expected() -> None:
    (opened,) = judged(BURNS, EACH_MINUTE, {}, live=True)
    assert opened.summary.startswith("3 jobs at $150/h, $99/h above what is expected, of lr have one alert")
    silent = [shared(Fired(POOL, f"run-{number}", 0, None)) for number in range(3)]
    (alert,) = incident_changes(silent, [], {}, 0, MINUTE_MS, ON, {})
    assert "expected" not in alert.summary


@pytest.mark.parametrize("live", [True, False])
def test_what_is_over_for_good_wastes_nothing_with_what_comes_later(live: bool) -> None:
    over = [each._replace(resolved_ms=10 * MINUTE_MS) for each in BURNS[:2]]
    for minute, severity in ((19, "page"), (20, "ticket")):
        late = [
            FOURTH._replace(job_id=f"late-{number}", started_ms=minute * MINUTE_MS, usd_per_hour=20)
            for number in range(3)
        ]
        changes = judged([*over, BURNS[2], *late], EACH_MINUTE, {}, live=live)
        assert changes[-1].severity == severity, "they waste $93/h without those that are over"


def test_what_was_expected_of_a_burn_counts_for_a_day_and_only_if_it_is_known() -> None:
    alert = shared(FOURTH)
    assert alert.wasted_at(MINUTE_MS + EXPECTED_MS) == 33 * 10**9
    assert alert.wasted_at(MINUTE_MS + EXPECTED_MS + 1) == 0
    assert alert._replace(expected_nano=None).wasted_at(2 * MINUTE_MS) == 0
    assert alert._replace(expected_nano=10**12).wasted_at(2 * MINUTE_MS) == 0


def stands(*jobs: tuple[str, int, int], lasts: int = 300) -> list[Fired]:
    """Jobs of owners, each told of at a minute, which stand still since another."""
    return [
        Fired(
            CLUSTER,
            f"{owner}-{at}",
            at * MINUTE_MS,
            (at + lasts) * MINUTE_MS,
            owner=owner,
            stood_ms=since * MINUTE_MS,
        )
        for owner, at, since in jobs
    ]


HANGS = stands(("ada", 22, 10), ("bob", 70, 13), ("cyd", 160, 15))


def test_jobs_that_stand_still_since_one_time_are_an_incident_whenever_they_are_told_of() -> None:
    (opened, over) = judged(HANGS, set(), {}, live=False, end_ms=HOURS_MS)
    assert (opened.subject_kind, opened.subject_name, opened.started_ms) == ("cluster", "c1", 161 * MINUTE_MS)
    assert opened.stood_ms == 10 * MINUTE_MS
    assert "of several owners in cluster c1 stand still since about 00:10 UTC" in opened.summary
    assert over.resolved_ms == 471 * MINUTE_MS


@pytest.mark.parametrize(
    "alerts",
    [
        stands(("ada", 70, 10), ("bob", 71, 12), ("cyd", 72, 16)),
        stands(("ada", 70, 10), ("bob", 71, 12), ("ada", 72, 12)),
        stands(("ada", 10, 10), ("bob", 71, 12), ("cyd", 190, 15)),
        [each._replace(stood_ms=None) for each in HANGS],
    ],
    ids=["since other times", "two owners", "the first three hours before", "since when is not known"],
)
def test_others_that_stand_still_are_none(alerts: list[Fired]) -> None:
    assert judged(alerts, set(), {}, live=False, end_ms=HOURS_MS) == []


@pytest.mark.parametrize("live", [True, False])
def test_a_cluster_that_hangs_again_while_jobs_still_stand_is_another_incident(live: bool) -> None:
    again = stands(("dan", 262, 250), ("eve", 300, 251), ("fay", 301, 252))
    changes = judged([*HANGS, *again], {280 * MINUTE_MS}, {}, live=live, end_ms=HOURS_MS)
    assert [(each.status, each.changed_ms // MINUTE_MS) for each in changes[:3]] == [
        (FIRING, 161),
        (RESOLVED, 302),
        (FIRING, 302),
    ]
    assert changes[2].stood_ms == 250 * MINUTE_MS


def test_alerts_for_the_digest_make_an_incident_for_it() -> None:
    few = [Fired(SWEEP, f"j{number}", 0, None, ticket_ms=None) for number in range(3)]
    (alert,) = judged(few, [], {}, live=False)
    assert alert.severity == DIGEST
