"""Alerts that wait to be stored, also where earlier owners of the shard stored rows that are ahead."""

from __future__ import annotations

from streams.engine.alerts.alert import Alert, HeldRow, last_ms
from streams.engine.alerts.unstored import UnstoredAlerts
from tests.engine.alerts.scene import FAST, USUAL, At, Scene

SHARD = 3


def episode() -> tuple[Alert, Alert, Alert]:
    """An alert as it opens, still holds ten seconds later, and is resolved ten seconds after that."""
    scene = Scene()
    opened, resolved = scene.see((0, FAST), (0, At(m5=6, m15=3)), (0, USUAL))
    again = Scene()
    _, held = again.see((0, FAST), (0, At(m5=6, m15=3)))
    assert [last_ms(row) - last_ms(opened) for row in (opened, held, resolved)] == [0, 10_000, 20_000]
    return opened, held, resolved


def rows_of(waiting: UnstoredAlerts) -> list[tuple[str, int]]:
    return [
        (row["status"], row["version"])
        for row in waiting.drain_rows(SHARD, 9).select(["status", "version"]).to_pylist()
    ]


def test_what_is_older_than_the_stored_row_is_neither_stored_nor_told() -> None:
    opened, held, resolved = episode()
    waiting = UnstoredAlerts()
    waiting.mark_stored({opened.alert_id: last_ms(resolved)})
    for row in (opened, held):
        waiting.add(row)
        waiting.judged(last_ms(row))
    assert not waiting
    assert not waiting.any_changed
    waiting.add(resolved)
    assert rows_of(waiting) == [("resolved", 9)]
    assert waiting.drain_changes() == [resolved]


def test_who_has_come_as_far_as_the_stored_row_and_finds_otherwise_stores_that() -> None:
    opened, held, resolved = episode()
    waiting = UnstoredAlerts()
    waiting.mark_stored({opened.alert_id: last_ms(resolved)})
    waiting.add(opened)
    waiting.add(held)
    waiting.judged(last_ms(resolved) - 1)
    assert not waiting
    waiting.judged(last_ms(resolved))
    assert rows_of(waiting) == [("firing", 9)]
    waiting.add(opened)  # nothing is kept back any more
    assert rows_of(waiting) == [("firing", 9)]


def test_alerts_of_which_nothing_is_stored_do_not_wait() -> None:
    opened, _, resolved = episode()
    waiting = UnstoredAlerts()
    waiting.mark_stored({"another": last_ms(resolved)})
    waiting.add(opened)
    assert rows_of(waiting) == [("firing", 9)]
    assert waiting.drain_changes() == [opened]


def test_the_newest_of_what_is_stored_counts_and_is_handed_on() -> None:
    waiting = UnstoredAlerts()
    for at_ms in (5, 7, 6):
        waiting.mark_stored({"a": at_ms})
    assert waiting.dump() == {"a": 7}
    waiting.judged(6)
    assert waiting.dump() == {"a": 7}
    waiting.judged(7)
    assert waiting.dump() == {}


def test_a_row_that_merely_holds_is_made_once_it_is_stored_and_replaces_only_older_ones() -> None:
    opened, held, resolved = episode()
    made: list[Alert] = []

    def row() -> Alert:
        made.append(held)
        return held

    deferred = HeldRow(held.subject_name, held.alert_id, last_ms(held), row)
    waiting = UnstoredAlerts()
    waiting.add_all([opened], [deferred])
    waiting.add_all([], [deferred])
    assert not made
    assert waiting.drain_rows(SHARD, 9).column("held").to_pylist()[0].timestamp() * 1000 == held.held_ms
    assert made == [held]
    assert waiting.drain_changes() == [opened]
    waiting.add_all([opened, resolved], [deferred])
    assert rows_of(waiting) == [("resolved", 9)]


def test_a_row_that_merely_holds_waits_where_a_newer_one_is_stored() -> None:
    _, held, resolved = episode()
    waiting = UnstoredAlerts()
    waiting.mark_stored({held.alert_id: last_ms(resolved)})
    waiting.add_all([], [HeldRow(held.subject_name, held.alert_id, last_ms(held), lambda: held)])
    assert not waiting
    waiting.judged(last_ms(resolved))
    assert rows_of(waiting) == [("firing", 9)]


def test_a_row_that_merely_holds_is_made_before_its_job_changes() -> None:
    opened, held, resolved = episode()
    known, made = "as of the tick", list[str]()

    def row() -> Alert:
        made.append(known)
        return held

    waiting = UnstoredAlerts()
    waiting.add_all([opened], [HeldRow(held.subject_name, held.alert_id, last_ms(held), row)])
    waiting.settle("another job")
    assert not made
    waiting.settle(held.subject_name)
    known = "as of later"
    waiting.settle(held.subject_name)
    assert rows_of(waiting) == [("firing", 9)]
    assert made == ["as of the tick"]
    waiting.add_all([], [HeldRow(held.subject_name, held.alert_id, last_ms(held), row)])
    waiting.add(resolved)
    waiting.settle(held.subject_name)
    assert made == ["as of the tick"], "it was replaced"
