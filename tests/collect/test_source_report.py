"""When a collector says what became of all that it has read: at its first poll, when causes change, and once an hour."""

from __future__ import annotations

import logging
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
