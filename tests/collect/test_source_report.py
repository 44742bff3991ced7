"""When a collector says what became of all that it has read: at its first poll, when causes change, and once an hour."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent
from streams.collect.source_report import EVERY_MS, POLLS, SourceReport
from streams.errors import TrainfareError
from streams.keys import key_of
from streams.topics import Topic

MINUTE_MS = 60_000


def account(metered: int, *reasons: str) -> Account:
    found = Account()
    found.metered(metered)
    for reason in reasons:
        found.not_understood(reason, f"of {reason}")
    return found


class Log:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.is_away = False

    def publish(self, events: list[CollectedEvent]) -> None:
        if self.is_away:
            raise TrainfareError("away")
        assert {event.topic for event in events} == {Topic.CONTROLS}
        self.records += [dict(event.value) for event in events]


class Memory:
    """What a position file keeps of a report."""

    def __init__(self) -> None:
        self.report: Mapping[str, Any] = {}
        self.stores = 0

    def store_report(self, report: Mapping[str, Any]) -> None:
        self.report, self.stores = json.loads(json.dumps(report)), self.stores + 1


def polled(*polls: Account, every_ms: int = MINUTE_MS) -> list[dict[str, Any]]:
    log = Log()
    report = SourceReport("slurm", log.publish)
    for number, each in enumerate(polls):
        report.polled(each, number * every_ms)
    return log.records


def figures(record: dict[str, Any]) -> tuple[int, dict[str, int], list[str]]:
    return record["polls"], record["entries"], record["standing"]


def test_the_first_poll_says_so_and_then_each_hour_the_sums() -> None:
    first, second = polled(*(account(2) for _ in range(61)))
    assert figures(first) == (1, {"metered": 2}, [])
    assert figures(second) == (60, {"metered": 120}, [])
    assert second["time_ms"] == EVERY_MS


def test_a_cause_is_said_at_once_and_over_after_polls_without_it() -> None:
    clean, odd = account(1), account(1, "no_end")
    records = polled(clean, odd, clean, odd, clean, clean, clean, clean, clean)
    assert POLLS == 3
    assert [figures(each) for each in records] == [
        (1, {"metered": 1}, []),
        (1, {"metered": 1, "not_understood/no_end": 1}, ["no_end"]),
        (5, {"metered": 5, "not_understood/no_end": 1}, []),
    ]
    assert records[1]["examples"] == {"no_end": "of no_end"}


def test_no_entry_is_lost_or_said_twice_while_the_log_is_away(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    report = SourceReport("slurm", log.publish)
    report.polled(account(1), 0)
    log.is_away = True
    with caplog.at_level(logging.WARNING):
        report.polled(account(1, "no_end"), 1)
        report.polled(account(1, "no_end"), 2)
    assert len(caplog.records) == 1
    log.is_away = False
    report.polled(account(1), 3)
    assert [sum(each["entries"].values()) for each in log.records] == [1, 5]
    assert figures(log.records[-1]) == (3, {"metered": 3, "not_understood/no_end": 2}, ["no_end"])


def test_a_record_has_the_key_of_its_source() -> None:
    import orjson

    (record,) = polled(account(1))
    assert key_of(Topic.CONTROLS, orjson.dumps(record)) == b"source/slurm"


def in_processes_of_one_poll(*polls: Account) -> list[dict[str, Any]]:
    log, memory = Log(), Memory()
    for number, each in enumerate(polls):
        SourceReport("json-files", log.publish, memory).polled(each, number * MINUTE_MS)
    return log.records


def test_an_empty_poll_replaces_no_account_and_is_none_of_those_without_a_cause() -> None:
    records = polled(account(6, "unit"), *(account(0) for _ in range(61)), account(1))
    assert [figures(each) for each in records] == [
        (1, {"metered": 6, "not_understood/unit": 1}, ["unit"]),
        (1, {"metered": 6, "not_understood/unit": 1}, ["unit"]),
    ]
    assert records[1]["time_ms"] == EVERY_MS


def test_an_account_outlives_the_process_and_its_empty_polls() -> None:
    empty, clean = account(0), account(2)
    records = in_processes_of_one_poll(account(6, "unit"), empty, empty, empty, clean, empty, clean, clean)
    first = (1, {"metered": 6, "not_understood/unit": 1}, ["unit"])
    later = (1, {"metered": 2}, ["unit"])
    assert [figures(each) for each in records] == [first] * 4 + [later, later, later, (1, {"metered": 2}, [])]
    assert [each["examples"] for each in records] == [{"unit": "of unit"}] * 7 + [{}]


def test_what_a_process_could_not_say_the_next_one_says() -> None:
    log, memory = Log(), Memory()
    log.is_away = True
    SourceReport("kafka", log.publish, memory).polled(account(1, "value"), 0)
    report = SourceReport("kafka", log.publish, memory)
    report.add(account(2))  # a poll that did not come to its end
    log.is_away = False
    SourceReport("kafka", log.publish, memory).polled(account(0), 1)
    assert [figures(each) for each in log.records] == [
        (3, {"metered": 3, "not_understood/value": 1}, ["value"])
    ]


def test_under_another_name_figures_begin_anew_and_empty_polls_are_not_stored() -> None:
    log, memory = Log(), Memory()
    SourceReport("a", log.publish, memory).polled(account(1, "value"), 0)
    report = SourceReport("b", log.publish, memory)
    for minute in range(5):
        report.polled(account(0), minute)
    assert [figures(each) for each in log.records[1:]] == [(1, {"metered": 0}, [])]
    assert memory.stores == 2


@pytest.mark.parametrize("stored", [{}, {"name": "a"}, {"name": "a", "since": 1}, {"quiet": None}])
def test_a_memory_of_another_form_begins_anew(stored: dict[str, Any]) -> None:
    log, memory = Log(), Memory()
    memory.report = stored
    SourceReport("a", log.publish, memory).polled(account(1), 0)
    assert [figures(each) for each in log.records] == [(1, {"metered": 1}, [])]
