"""Hand-worked cases of the oracle's timeline: held time, ends, values, attempts, wall clock.

Every figure is worked out in the comment beside it.
"""

from __future__ import annotations

import itertools

import pytest

from tests.oracle.cases import M0, T0, job, ledger, lost_nano, network, price, quantity
from tests.oracle.compute import compute
from tests.oracle.model import DAY_MS

S = 1000
M = 60 * S
PRICE = price("p", "3.6")  # 1 nano-dollar per thousandth of a GPU and ms, so cost = quantity


def test_phases_and_the_minutes_they_fall_into() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "queued", T0 - 5 * M, gpu_count=4),
            job("j", "allocated", T0 + 50 * S),
            job("j", "started", T0 + 65 * S),
            job("j", "completed", T0 + 125 * S + 7),
        ]
    )
    rows = {(k.minute - M0, k.phase): r.quantity for k, r in tables.ledger.items()}
    assert rows == {
        (0, "starting"): 4000 * 10 * S,  # 50 s to 60 s
        (1, "starting"): 4000 * 5 * S,
        (1, "running"): 4000 * 55 * S,
        (2, "running"): 4000 * (5 * S + 7),
    }
    assert tables.jobs["j"].wall_clock_ms == 75 * S + 7
    assert tables.jobs["j"].state == "completed"


def test_rows_follow_the_nodes_and_a_count_that_differs_forgets_them() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "started", T0, nodes={"a": 2, "b": 0.5, "c": 0}),
            job("j", "scaled", T0 + 1 * S, gpu_count=2.5),  # equals the sum: the nodes stay
            job("j", "scaled", T0 + 2 * S, gpu_count=3),  # differs: the nodes are forgotten
            job("j", "scaled", T0 + 3 * S, nodes={"b": 1}),
            job("j", "heartbeat", T0 + 4 * S, gpu_count=0),  # any event may name it
            job("j", "completed", T0 + 10 * S),
        ]
    )
    assert {k.node: r.quantity for k, r in tables.ledger.items()} == {
        "a": 2000 * 2 * S,
        "b": 500 * 2 * S + 1000 * S,
        "": 3000 * S,
    }
    assert tables.jobs["j"].wall_clock_ms == 10 * S


def test_suspended_releases_unless_it_holds() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "started", T0, gpu_count=1),
            job("j", "suspended", T0 + 1 * S),
            job("j", "scaled", T0 + 2 * S, gpu_count=2),  # "only changes the count for later"
            job("j", "resumed", T0 + 5 * S),
            job("j", "suspended", T0 + 8 * S, holds_gpus=True),
            job("j", "heartbeat", T0 + 9 * S),
            job("j", "queued", T0 + 12 * S),
            job("j", "cancelled", T0 + 20 * S),
        ]
    )
    # running 1 s x 1 and 3 s x 2; held suspended 4 s x 2; the rest is released.
    assert {k.phase: r.quantity for k, r in tables.ledger.items()} == {
        "running": 7_000_000,
        "suspended": 8_000_000,
    }
    assert tables.jobs["j"].wall_clock_ms == 8 * S


def test_the_first_ending_event_ends_and_later_ones_only_name_the_owner() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "started", T0, gpu_count=1, owner="ann", labels={"a": "1", "b": "2"}),
            job("j", "completed", T0 + 2 * S),
            job("j", "failed", T0 + 1 * S),
            job("j", "resumed", T0 + 3 * S, gpu_count=9),
            job("j", "updated", T0 + 4 * S, owner="bob", labels={"c": "3"}),
        ]
    )
    assert quantity(tables, "j") == 1_000_000
    row = tables.jobs["j"]
    assert (row.state, row.owner, row.labels) == ("failed", "bob", (("c", "3"),))
    assert lost_nano(tables, "j") == 1_000_000  # failed without a checkpoint: from its start


def test_equal_times_are_ordered_by_type_then_source_then_id() -> None:
    lines = [
        PRICE,
        job("j", "started", T0, gpu_count=1),
        job("j", "scaled", T0 + 1 * S, source="b", id="1", gpu_count=2),
        job("j", "scaled", T0 + 1 * S, source="a", id="9", gpu_count=3),
        job("j", "resumed", T0 + 1 * S, source="z", id="9", gpu_count=4),  # before any scaled of that instant
        job("j", "cancelled", T0 + 2 * S, id="x"),
        job("j", "preempted", T0 + 2 * S, id="y"),  # stands left of cancelled in the table
    ]
    for order in itertools.islice(itertools.permutations(lines), 0, 5040, 97):
        tables = compute(order)
        assert quantity(tables, "j") == 1_000_000 + 2_000_000
        assert tables.jobs["j"].state == "preempted"


def test_an_attempt_without_an_end_is_superseded_by_the_next_start() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "started", T0, nodes={"a": 2}, gpu_type="H100"),
            job("j", "scaled", T0 + 10 * S, nodes={"b": 3}),  # at the very instant: its values carry over
            job("j", "scaled", T0 + 11 * S, nodes={"c": 8}),  # after the end
            job("j", "allocated", T0 + 10 * S, attempt=2),
            job("j", "started", T0 + 14 * S, attempt=2),
            job("j", "completed", T0 + 20 * S, attempt=2),
        ]
    )
    assert {(k.attempt, k.node, k.phase): r.quantity for k, r in tables.ledger.items()} == {
        (1, "a", "running"): 2000 * 10 * S,
        (2, "b", "starting"): 3000 * 4 * S,
        (2, "b", "running"): 3000 * 6 * S,
    }
    assert [tables.attempts["j", n].state for n in (1, 2)] == ["superseded", "completed"]
    # Superseded without a checkpoint is lost from its start, and so is the starting phase of the second attempt.
    assert lost_nano(tables, "j") == 20_000_000 + 12_000_000
    assert tables.jobs["j"].attempts == 2


def test_attempts_that_overlap_by_their_own_events_are_both_paid() -> None:
    tables = compute(
        [
            PRICE,
            job("j", "started", T0, gpu_count=1),
            job("j", "failed", T0 + 10 * S, gpu_count=5),  # the ending event's values are inherited
            job("j", "started", T0 + 4 * S, attempt=2),
            job("j", "completed", T0 + 12 * S, attempt=2),
        ]
    )
    assert quantity(tables, "j", attempt=1) == 10_000_000
    assert quantity(tables, "j", attempt=2) == 5000 * 8 * S
    assert tables.attempts["j", 1].wall_clock_ms == 10 * S
    assert tables.attempts["j", 2].wall_clock_ms == 2 * S  # the union is 12 s


@pytest.mark.parametrize(
    ("later", "paid_s"),
    [
        ([("started", 2, 5)], 5),
        ([("started", 2, 7), ("allocated", 3, 4)], 4),  # the earliest of any later attempt
        ([("completed", 2, 3), ("started", 2, 5)], 30),  # a start after that attempt's own end is none
        ([("queued", 2, 5)], 30),  # queued does not supersede
        ([("started", 2, -5)], 0),  # before its own start: nothing is paid
        ([("resumed", 2, 6)], 6),  # resumed counts as started
    ],
)
def test_when_a_later_attempt_supersedes(later: list[tuple[str, int, int]], paid_s: int) -> None:
    lines = [PRICE, job("j", "started", T0, gpu_count=1)]
    lines += [job("j", kind, T0 + at_s * S, attempt=n) for kind, n, at_s in later]
    tables = compute(lines, as_of_ms=T0 + 30 * S)
    assert quantity(tables, "j", attempt=1) == paid_s * 1_000_000


def test_the_clock_cuts_open_attempts_and_nothing_else() -> None:
    lines = [
        PRICE,
        job("open", "started", T0, gpu_count=1),
        job("open", "suspended", T0 + 20 * S),
        job("done", "started", T0, gpu_count=1),
        job("done", "completed", T0 + 20 * S),
    ]
    assert {j: quantity(compute(lines), j) for j in ("open", "done")} == {
        "open": 20_000_000,
        "done": 20_000_000,
    }
    early = compute(lines, as_of_ms=T0 + 5 * S)  # a closed segment of an open attempt is cut too
    assert {j: quantity(early, j) for j in ("open", "done")} == {"open": 5_000_000, "done": 20_000_000}
    assert early.jobs["open"].state == "suspended"


def test_the_newest_event_of_any_topic_is_the_clock() -> None:
    lines = [PRICE, job("open", "started", T0, gpu_count=1), network("other", T0 + 9 * S, 0, bytes=1)]
    assert quantity(compute(lines), "open") == 9_000_000


def test_an_attempt_is_paid_for_400_days_at_most() -> None:
    # The 400 days run from the first paid instant, through released time too: 60 s, then 30 s are left.
    lines = [
        price("slot", "0.1", component="overhead", per="job_hour"),
        job("j", "started", T0),
        job("j", "suspended", T0 + 1 * M),
        job("j", "resumed", T0 + 400 * DAY_MS - 30 * S),
        job("j", "completed", T0 + 401 * DAY_MS),
    ]
    assert quantity(compute(lines), "j") == 60 * S + 30 * S


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        (["queued"], "queued"),
        (["queued", "allocated"], "starting"),
        (["started", "heartbeat"], "running"),
        (["started", "suspended", "scaled"], "suspended"),
        (["started", "queued"], "queued"),
        (["started", "preempted", "started"], "preempted"),
        (["updated"], "queued"),  # nothing set a state: it is as it began
        ([], "metered"),  # known by its traffic alone
    ],
)
def test_the_state_of_a_job(kinds: list[str], state: str) -> None:
    lines = [job("j", kind, T0 + index) for index, kind in enumerate(kinds)]
    lines.append(network("j", T0, 0, bytes=0))
    assert compute(lines).jobs["j"].state == state


def test_dimensions_are_those_of_the_highest_attempt_that_names_them() -> None:
    tables = compute(
        [
            price("t", "1", team="red"),
            job("j", "started", T0 + 9 * S, attempt=1, team="blue", project="p", gpu_count=1),
            job("j", "completed", T0 + 10 * S, attempt=1),
            job("j", "updated", T0, attempt=2, team="red"),  # earlier, but of a later attempt
        ]
    )
    assert (tables.jobs["j"].team, tables.jobs["j"].project) == ("red", "p")
    assert [k.sku for k in ledger(tables, "j")] == ["t"]  # the team belongs to the whole job, prices included
