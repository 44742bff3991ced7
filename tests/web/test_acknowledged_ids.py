"""Acknowledging over HTTP: the alert must be one of the store, and an id that is none is shown as it was typed."""

from __future__ import annotations

import asyncio
from typing import Any

from sinks.clickhouse import ClickHouseStore
from streams.web.figures import ApiFigures
from streams.web.store_reader import StoreReader
from tests.sinks.rows import dicts
from tests.web.serving import Client, served
from tests.web.test_controls import ACK, ALERT, WRITE, Log, post, posted


def test_an_acknowledgement_of_no_alert_is_refused(store: ClickHouseStore) -> None:
    log = Log()

    async def work(client: Client) -> tuple[int, Any]:
        status, found, _ = await post(client, ACK)
        return status, found["error"]

    status, error = served(store, work, controls=log, write_token=WRITE)
    assert (status, error["code"], error["field"]) == (404, "no_such_alert", "alert_id")
    assert error["message"].startswith(f"alert_id: there is no alert {ALERT}; take the id from ")
    assert log.records == []


def test_an_alert_of_the_store_is_known(store: ClickHouseStore) -> None:
    async def asked(*alert_ids: str) -> list[bool]:
        reader = StoreReader(lambda: store, "test")
        try:
            return [await ApiFigures(reader, lambda: 0).has_alert(each) for each in alert_ids]
        finally:
            await reader.close()

    there = str(dicts(store, "SELECT alert_id FROM alerts LIMIT 1")[0]["alert_id"])
    assert asyncio.run(asked(there, ALERT)) == [True, False]


def test_an_id_that_is_none_is_shown_as_it_was_typed() -> None:
    status, found = posted({**ACK, "alert_id": "al_8fe63f\u202e"})
    assert status == 400
    assert 'got "al_8fe63f\\u202e", expected `al_` and 24 hex' in found["error"]["message"]
