"""Idle time that is kept ready by day: the same answers as from minutes, also after rows of a day come late."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.balance_table import BALANCE_HOURS
from schemas.job_days_table import JOB_DAYS
from schemas.tables import JOB_HOURS, JOB_MINUTES, NODE_HOURS, NODE_MINUTES, UNATTRIBUTED_MINUTES
from sinks.clickhouse import ClickHouseStore
from sinks.meta import MINUTES_KEPT_FROM
from sinks.rows import Condition
from streams.costs import idle_nodes
from streams.costs.answer import cost_steps
from streams.costs.day_parts import answered
from streams.costs.kept_days import KEPT_TABLE, NETTED, Day, SourcedSpan, parts_of
from streams.costs.parts import HourSpan
from streams.costs.request import Period, request_of
from streams.worker.storing.balances import SettledDays, ended_days, keep_days, keep_settled
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded

FIRST = instant("2026-04-29 00:00")
DAYS, NODES = 5, 3
DAY_S, DAY_MS = 86_400, 86_400_000
ALL = HourSpan(None, None)
VIEWS = ("node_hour_balance", "idle_hours", "forgotten_nodes", "m3_unallocated_ratio", "right_sizing")


def fill(store: ClickHouseStore, first: datetime = FIRST) -> None:
    """Nodes with a price each minute of some hours, jobs that pay for part of it, and work without a job."""
    draw = random.Random(17)
    lines: dict[str, list[dict[str, Any]]] = {
        name: [] for name in (NODE_MINUTES, JOB_MINUTES, NODE_HOURS, JOB_HOURS, UNATTRIBUTED_MINUTES)
    }
    for at in range(0, 24 * DAYS, 5):
        hour = first + timedelta(hours=at)
        for node in (f"n{number}" for number in range(NODES)):
            lines[NODE_HOURS].append(
                {
                    "hour": hour,
                    "node": node,
                    "team": "red" if node == "n0" else "",
                    "cluster": "c",
                    "gpu_type": "H100",
                }
                | {"paid_ms": 3_600_000, "gpu_milli_ms": 60_000, "version": 1}
            )
            lines[JOB_HOURS].append({"hour": hour, "job_id": f"of-{node}", "attempt": 1, "version": 1})
            for minute in (hour + timedelta(minutes=draw.randrange(60)) for _ in range(4)):
                of = {"minute": minute, "node": node, "quantity": 1_000, "unit": "gpu_milli_ms", "version": 1}
                lines[NODE_MINUTES].append(of | {"cost_usd": Decimal(draw.randrange(10**9)).scaleb(-9)})
                if draw.random() < 0.6:
                    lines[JOB_MINUTES].append(
                        of
                        | {
                            "job_id": f"of-{node}",
                            "component": "gpu",
                            "cost_usd": Decimal(draw.randrange(10**9)).scaleb(-9),
                        }
                    )
                if draw.random() < 0.3:
                    lines[UNATTRIBUTED_MINUTES].append(
                        {"minute": minute, "node": node, "gpu": "g", "productive_ms": draw.randrange(60), "version": 1}
                    )  # fmt: skip
    for table, values in lines.items():
        store.insert(table, rows(table, *values), table)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path / "meter") as store:
        fill(store)
        yield store


def answers(store: ClickHouseStore) -> list[Any]:
    """What is asked of idle time, in each of the ways."""
    m3 = request_of({"metric": ["m3"], "by": ["team", "node"], "per": ["day"]})
    whole = request_of({"metric": ["m3"], "from": ["2026-04-29T07:00:00"], "to": ["2026-05-02T12:00:00"]})
    steps: list[Any] = [
        cost_steps(m3),
        cost_steps(whole),
        idle_nodes.cells(("team",), Period.hour, ALL),
        idle_nodes.findings(ALL),
    ]
    return [answered(each, store.ask).rows for each in steps]


def idle_usd(store: ClickHouseStore) -> Decimal:
    """Idle cost by the view, which nothing keeps ready."""
    (row,) = store.ask(f"SELECT sum(idle_cost_usd) FROM {NETTED}", {}).rows()
    return Decimal(str(row[0]))


def views(store: ClickHouseStore) -> dict[str, list[Any]]:
    """All rows of the views that read what is kept ready."""
    return {name: list(store.ask(f"SELECT * FROM {name} ORDER BY ALL", {}).rows()) for name in VIEWS}


def statements(store: ClickHouseStore) -> list[str]:
    """What is asked for idle time by team."""
    asked: list[str] = []

    def ask(sql: str, parameters: Any) -> Any:
        asked.append(sql)
        return store.ask(sql, parameters)

    answered(idle_nodes.cells(("team",), Period.all, ALL), ask)
    return asked[1:]


def test_kept_days_answer_as_their_minutes_do(store: ClickHouseStore) -> None:
    before, rows_before = answers(store), views(store)
    assert all(before)
    assert {row[-1] for row in rows_before["node_hour_balance"]} == {0, 1}  # some are overcommitted
    days = ended_days(store)
    assert [day.begin_s for day in days] == [int(FIRST.timestamp()) + DAY_S * day for day in range(DAYS - 1)]
    keep_days(store, days)
    assert all(day.is_kept for day in ended_days(store))
    kept, netted = statements(store)
    assert "balance_hours" in kept
    assert NETTED not in kept
    assert NETTED in netted
    assert "balance_hours" not in netted
    assert answers(store) == before
    assert views(store) == rows_before
    store.delete(BALANCE_HOURS, [Condition("node", "=", "n1")])
    assert views(store) != rows_before  # so what is kept was read


def test_what_to_look_at_nets_a_day_once(store: ClickHouseStore) -> None:
    keep_settled(store)
    asked: list[str] = []

    def ask(sql: str, parameters: Any) -> Any:
        asked.append(sql)
        return store.ask(sql, parameters)

    found = answered(idle_nodes.findings(ALL), ask).rows
    assert {row[0] for row in found} >= {"unattributed_use"}
    assert "".join(asked).count(NETTED) == 1


def test_days_of_a_small_store_are_not_worth_keeping(store: ClickHouseStore) -> None:
    hours = sum(day.hours + day.job_hours for day in ended_days(store))
    keep_settled(store, hours + 1)
    assert not any(day.is_kept or day.has_jobs for day in ended_days(store))
    keep_settled(store, hours)
    assert all(day.is_kept and day.has_jobs for day in ended_days(store))


def test_a_day_is_netted_again_once_a_late_row_has_come(store: ClickHouseStore) -> None:
    keep_settled(store)
    late = FIRST + timedelta(days=1, hours=1)
    store.insert(
        NODE_MINUTES,
        rows(NODE_MINUTES, {"minute": late, "node": "n1", "quantity": 9, "unit": "gpu_milli_ms", "cost_usd": Decimal(7)}),
        "late",
    )  # fmt: skip
    store.insert(
        NODE_HOURS, rows(NODE_HOURS, {"hour": late, "node": "n1", "paid_ms": 60_000, "cluster": "c", "version": 2}), "late"
    )  # fmt: skip
    assert [day.is_kept for day in ended_days(store)] == [True, False, True, True]
    assert len(statements(store)) == 4
    found = answered(idle_nodes.cells(("cluster",), Period.all, ALL), store.ask).rows
    assert sum(row[4] for row in found) == idle_usd(store)
    changed, rows_changed = answers(store), views(store)
    assert rows_changed["node_hour_balance"] == list(
        store.ask(f"SELECT * FROM {NETTED} ORDER BY ALL", {}).rows()
    )
    keep_settled(store)
    assert all(day.is_kept for day in ended_days(store))
    assert answers(store) == changed
    assert views(store) == rows_changed
    stamps = store.ask(
        "SELECT toDate(hour) AS day, uniqExact(stamp) AS stamps FROM balance_hours GROUP BY day", {}
    )
    assert {int(str(row[1])) for row in stamps.rows()} == {1}


def test_days_of_one_month_are_kept_by_the_same_statements(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    inserted: list[str] = []
    insert = store.insert

    def noted(table: str, rows: Any, token: str) -> None:
        inserted.append(table)
        insert(table, rows, token)

    monkeypatch.setattr(store, "insert", noted)
    keep_settled(store)
    # Of two days in April and of two in May: their rows, and that all are there.
    assert sorted(inserted) == [BALANCE_HOURS] * 4 + [JOB_DAYS] * 4
    assert all(day.is_kept and day.has_jobs for day in ended_days(store))


def test_a_kept_day_between_two_that_changed_stays_as_it_is(tmp_path: Path) -> None:
    first = instant("2026-05-01 00:00")
    with embedded(tmp_path / "meter") as store:
        fill(store, first)
        keep_settled(store)
        between = [(first + timedelta(days=day)).timestamp() for day in (1, 3)]
        before = [each for each in kept_rows(store) if each[0] in between]
        changed = [first, first + timedelta(days=2)]
        late = {"version": 2, "paid_ms": 60_000, "node": "n1"}
        store.insert(NODE_HOURS, rows(NODE_HOURS, *({**late, "hour": each} for each in changed)), "late")
        more = {"version": 2, "job_id": "of-n1", "attempt": 1}
        store.insert(JOB_HOURS, rows(JOB_HOURS, *({**more, "hour": each} for each in changed)), "late")
        assert [day.is_kept for day in ended_days(store)] == [False, True, False, True]
        assert [day.has_jobs for day in ended_days(store)] == [False, True, False, True]
        keep_settled(store)
        assert all(day.is_kept and day.has_jobs for day in ended_days(store))
        found = kept_rows(store)
        assert [each for each in found if each[0] in between] == before
        # Each day has one stamp, once.
        assert len({each[:2] for each in found}) == len({each[:3] for each in found}) == 2 * (DAYS - 1)
        balance = store.ask("SELECT * FROM node_hour_balance ORDER BY ALL", {}).rows()
        assert [*balance] == [*store.ask(f"SELECT * FROM {NETTED} ORDER BY ALL", {}).rows()]


def kept_rows(store: ClickHouseStore) -> list[tuple[Any, ...]]:
    """The begin of the day (s), table, stamp and all else of each row that is kept ready."""
    found: list[tuple[Any, ...]] = []
    for table, time in ((BALANCE_HOURS, "hour"), (JOB_DAYS, "day")):
        sql = f"SELECT toUnixTimestamp(toStartOfDay({time}, 'UTC')), '{table}', stamp, * FROM {table} FINAL ORDER BY ALL"
        found += map(tuple, store.ask(sql, {}).rows())
    return found


def test_days_are_kept_one_by_one_the_newest_first_once_their_rows_have_settled(
    store: ClickHouseStore,
) -> None:
    days = SettledDays(store)
    assert not days.keep_next()
    assert [day.is_kept for day in ended_days(store)] == [False] * 4
    late = {"hour": FIRST, "node": "n1", "paid_ms": 60_000, "version": 2}
    store.insert(NODE_HOURS, rows(NODE_HOURS, late), "late")
    assert days.keep_next()
    assert [day.is_kept for day in ended_days(store)] == [False, False, False, True]
    assert days.keep_next()
    assert [day.is_kept for day in ended_days(store)] == [False, False, True, True]
    assert not days.keep_next()
    assert [day.is_kept for day in ended_days(store)] == [False, True, True, True]
    assert not days.keep_next()  # the day of the late row has the same rows as at the look before
    assert [day.is_kept for day in ended_days(store)] == [True] * 4


def test_days_of_months_without_minutes_are_not_asked(store: ClickHouseStore) -> None:
    keep_days(store, ended_days(store))
    store.meta.put(MINUTES_KEPT_FROM, "202605")
    assert [day.begin_s for day in ended_days(store)] == [
        int(FIRST.timestamp()) + 2 * DAY_S,
        int(FIRST.timestamp()) + 3 * DAY_S,
    ]
    found = answered(idle_nodes.cells(("cluster",), Period.all, ALL), store.ask).rows
    assert sum(row[4] for row in found) == idle_usd(store)


def test_a_day_without_its_last_row_is_not_kept(store: ClickHouseStore) -> None:
    before = answers(store)
    day = ended_days(store)[0]
    keep_days(store, [day])
    store.delete(BALANCE_HOURS, [Condition("node", "=", "")])  # as after a crash before it
    assert not ended_days(store)[0].is_kept
    assert answers(store) == before


def days_of(*given: tuple[int, int, bool]) -> list[Day]:
    return [Day(DAY_S * day, hours, day + 1, is_kept) for day, hours, is_kept in given]


def netted(begin_ms: int | None, end_ms: int | None) -> SourcedSpan:
    return SourcedSpan(HourSpan(begin_ms, end_ms), NETTED, {})


def kept(begin_ms: int | None, end_ms: int | None, *days: int) -> SourcedSpan:
    parameters: Any = {"kept_days": [DAY_S * day for day in days], "stamps": [day + 1 for day in days]}
    return SourcedSpan(HourSpan(begin_ms, end_ms), KEPT_TABLE, parameters)


def test_a_span_is_cut_at_midnight_into_parts_that_cover_it() -> None:
    days = days_of(*((day, hours, False) for day, hours in enumerate([4, 6, 1, 30, 9, 1, 1])))
    assert parts_of(HourSpan(None, 7 * DAY_MS - 1), days, 10) == [
        netted(None, 2 * DAY_MS),
        netted(2 * DAY_MS, 3 * DAY_MS),
        netted(3 * DAY_MS, 4 * DAY_MS),  # a single day is never cut
        netted(4 * DAY_MS, 6 * DAY_MS),
        netted(6 * DAY_MS, 7 * DAY_MS - 1),
    ]
    assert parts_of(HourSpan(5, None), [], 10) == [netted(5, None)]


def test_parts_of_kept_days_hold_no_other_day() -> None:
    days = days_of((1, 2, True), (2, 2, True), (4, 2, True), (5, 2, False), (6, 2, False), (7, 2, True))
    assert parts_of(HourSpan(None, 8 * DAY_MS), days, 10) == [
        netted(None, DAY_MS),
        kept(DAY_MS, 3 * DAY_MS, 1, 2),
        netted(3 * DAY_MS, 4 * DAY_MS),
        kept(4 * DAY_MS, 5 * DAY_MS, 4),
        netted(5 * DAY_MS, 7 * DAY_MS),
        kept(7 * DAY_MS, 8 * DAY_MS, 7),
    ]
    assert parts_of(HourSpan(DAY_MS + 5, None), days[:1], 10) == [
        kept(DAY_MS + 5, 2 * DAY_MS, 1),
        netted(2 * DAY_MS, None),
    ]
    assert parts_of(HourSpan(DAY_MS, 2 * DAY_MS - 1), days[:1], 10) == [kept(DAY_MS, 2 * DAY_MS - 1, 1)]
