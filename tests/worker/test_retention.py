"""Which worker drops old minutes, what it says, and what a store that refuses does to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pyarrow as pa
import pytest

from schemas.tables import JOB_MINUTES
from sinks.errors import SinkBusy
from sinks.meta import MINUTES_KEPT_FROM, Meta
from streams.worker.storing import retention
from tests.oracle.cases import T0


class _Meta(Meta):
    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def put(self, key: str, value: str) -> None:
        self.values[key] = value


class _Months:
    """A store with the minutes of some months, which refuses the first calls."""

    def __init__(self, refusals: int = 0) -> None:
        self.meta = _Meta()
        self.months = [202309, 202310, 202311]
        self._refusals = refusals

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        if self._refusals:
            self._refusals -= 1
            raise SinkBusy("no answer")
        return pa.table({"newest_ms": [T0]})

    def drop_months(self, table: str, before: int) -> list[int]:
        assert self.meta.values == {MINUTES_KEPT_FROM: str(before)}, "recorded first"
        if table != JOB_MINUTES:
            return []
        gone = [month for month in self.months if month < before]
        self.months = [month for month in self.months if month >= before]
        return gone


def looks(store: _Months, owns: list[bool], days: int, patch: pytest.MonkeyPatch) -> None:
    """Let one worker look as often as there are answers to whether it owns shard 0."""
    left = list(owns)

    async def at_once(seconds: float) -> None:
        assert seconds == retention.EVERY_S
        if not left:
            raise asyncio.CancelledError

    patch.setattr("streams.worker.supervise.asyncio.sleep", at_once)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(retention.keep_dropping(store, days, lambda: left.pop(0)))


def test_only_the_owner_of_shard_0_drops_and_says_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = _Months()
    looks(store, [False, False], 60, monkeypatch)
    assert (store.months, store.meta.values, caplog.records) == ([202309, 202310, 202311], {}, [])
    looks(store, [True, True], 60, monkeypatch)
    assert store.months == [202311]  # it ended 31 days before the newest event
    (line,) = caplog.records
    assert line.getMessage() == "dropped minutes that are older than the retention; their hours stay"
    assert (line.__dict__["table"], line.__dict__["months"]) == (JOB_MINUTES, [202309, 202310])


def test_a_store_that_refuses_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = _Months(refusals=1)
    looks(store, [True], 60, monkeypatch)
    assert store.months == [202309, 202310, 202311]
    assert [line.levelname for line in caplog.records] == ["WARNING"]
    looks(store, [True], 60, monkeypatch)
    assert store.months == [202311]


def test_months_stay_dropped_under_a_longer_retention() -> None:
    store = _Months()
    retention.drop_old_minutes(store, 60)
    retention.drop_old_minutes(store, 36_500)
    assert store.meta.values == {MINUTES_KEPT_FROM: "202311"}
