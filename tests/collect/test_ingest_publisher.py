"""Events of collectors over HTTP, to the endpoint that a worker serves."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from sinks.errors import SinkBusy
from streams.accounts.account import Account
from streams.accounts.record import source_record
from streams.collect.collector import CollectedEvent
from streams.collect.ingest_publisher import IngestPublisher
from streams.errors import TrainfareError, WrongUseError
from streams.topics import Topic
from tests.web.serving import WALL_MS, Client, served
from tests.web.test_controls import Log as Controls
from tests.web.test_ingest import STARTED, WRITE, Log


def event(number: int, **other: Any) -> CollectedEvent:
    return CollectedEvent(Topic.JOBS, {**STARTED, "id": f"e{number}", "time_ms": WALL_MS, **other})


def published(events: list[CollectedEvent], log: Log, token: str = WRITE) -> None:
    async def work(client: Client) -> None:
        await asyncio.to_thread(IngestPublisher(client.server.url + "/", token).publish, events)

    served(None, work, events=log, write_token=WRITE)


def test_all_events_arrive_in_order_in_requests_within_the_limits() -> None:
    log = Log()
    published([event(number, labels={"x": "y" * 250}) for number in range(5_000)], log)
    ids = [each.value.split(b'"id":"')[1].split(b'"')[0].decode() for each in log.records]
    assert ids == [f"e{number}" for number in range(5_000)]


def test_what_is_refused_is_logged_and_the_rest_arrives(caplog: pytest.LogCaptureFixture) -> None:
    log = Log()
    with caplog.at_level(logging.WARNING):
        published([event(1, type="begun\x1b"), event(2)], log)
    assert len(log.records) == 1
    (line,) = caplog.records
    assert (line.__dict__["refused"], line.__dict__["reason"]) == (1, "unknown_type")
    assert "\x1b" not in line.__dict__["detail"]


def test_a_worker_whose_kafka_is_away_is_asked_again_later() -> None:
    with pytest.raises(TrainfareError, match="answered 503") as fault:
        published([event(1)], Log(fault=SinkBusy("x")))
    assert not isinstance(fault.value, WrongUseError)


def test_a_wrong_token_is_wrong_use_and_is_not_shown() -> None:
    with pytest.raises(WrongUseError, match="answered 401") as fault:
        published([event(1)], Log(), token="secret-of-somebody-else")
    assert "secret-of" not in str(fault.value)


def test_nobody_there_is_said_without_a_traceback() -> None:
    with pytest.raises(TrainfareError, match="no answer"):
        IngestPublisher("http://127.0.0.1:9", "t").publish([event(1)])


def test_what_was_read_goes_to_the_endpoint_of_controls() -> None:
    account = Account()
    account.not_understood("no_end", "job 8")
    record = source_record("slurm", account, 1, ["no_end"], WALL_MS)
    log, controls = Log(), Controls()

    async def work(client: Client) -> None:
        publisher = IngestPublisher(client.server.url, WRITE)
        await asyncio.to_thread(
            publisher.publish, [event(1), CollectedEvent(Topic.CONTROLS, record), event(2)]
        )

    served(None, work, events=log, controls=controls, write_token=WRITE)
    assert len(log.records) == 2
    ((key, value),) = controls.records
    said = decode("controls", value, (), WALL_MS)
    assert isinstance(said, ControlEvent)
    assert (key, said.kind, said.value["standing"]) == (b"source/slurm (write_token)", "source", ["no_end"])
    assert said.value["entries"] == {"not_understood/no_end": 1}
    assert said.value["by"] == "web.write_token"
