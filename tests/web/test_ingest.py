"""Events over HTTP: each form, what is refused and why, who may, and what a flood or a log that is away does."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from schemas.decode import decode
from schemas.events import JobEvent
from schemas.reasons import Reason
from sinks.errors import SinkBusy
from streams.keys import OutgoingRecord
from streams.web import ingest
from streams.web.ingest import BODY_MAX_BYTES, IN_FLIGHT_MAX_BYTES
from streams.web.ingest_body import BATCHED, EVENTS_MAX, STRUCTURED
from tests.web.serving import LOCAL, WALL_MS, Client, served
from tests.web.test_meter import GOOD
from tests.web.test_scopes import bearer

WRITE = "may-write-and-nothing-else"
STARTED: dict[str, Any] = {
    "source": "s", "id": "e1", "time_ms": WALL_MS, "job_id": "run-7", "type": "started", "gpu_count": 8,
}  # fmt: skip


@dataclass
class Log:
    """Takes records; `fault` refuses them, `gate` holds them until it is set."""

    records: list[OutgoingRecord] = field(default_factory=list)
    fault: Exception | None = None
    gate: asyncio.Event | None = None

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.records.extend(records)


async def post(client: Client, body: object, query: str = "", **headers: str) -> tuple[int, Any, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"Content-Type": "application/json", **bearer(WRITE), **named}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.session.post(
        f"{client.server.url}/api/v1/events{query}", data=data, headers=sent
    ) as answer:
        return answer.status, await answer.json(), answer.headers


def posted(body: object, query: str = "", **headers: str) -> tuple[int, Any, Log]:
    used = Log()

    async def work(client: Client) -> tuple[int, Any]:
        status, found, _ = await post(client, body, query, **headers)
        return status, found

    return (*served(None, work, events=used, write_token=WRITE), used)


def as_cloudevent(value: dict[str, Any]) -> dict[str, Any]:
    data = {name: each for name, each in value.items() if name not in ("id", "source")}
    return {"specversion": "1.0", "type": "job", "id": value["id"], "source": value["source"], "data": data}


# -- forms ---------------------------------------------------------------------------------------------------

SECOND = {**STARTED, "id": "e2", "job_id": "run-8"}
FORMS: list[tuple[object, str, dict[str, str], int]] = [
    (STARTED, "?topic=jobs", {}, 1),
    ([STARTED, SECOND], "?topic=jobs", {}, 2),
    ({"topic": "jobs", "value": STARTED}, "", {}, 1),
    ([{"topic": "jobs", "value": STARTED}, {"topic": "jobs", "value": SECOND}], "", {}, 2),
    (as_cloudevent(STARTED), "?topic=jobs", {"Content_Type": STRUCTURED}, 1),
    ([as_cloudevent(STARTED), as_cloudevent(SECOND)], "?topic=jobs", {"Content_Type": BATCHED}, 2),
    (
        {"specversion": "1.0", "id": "e1", "source": "s",
         "data_base64": base64.b64encode(json.dumps(STARTED).encode()).decode()},
        "?topic=jobs", {"Content_Type": STRUCTURED}, 1,
    ),
    (
        {name: each for name, each in STARTED.items() if name not in ("id", "source")},
        "?topic=jobs", {"ce_specversion": "1.0", "ce_id": "e1", "ce_source": "s", "ce_type": "job"}, 1,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "query", "headers", "count"), FORMS)
def test_every_form_becomes_records_that_the_meter_takes(
    body: object, query: str, headers: dict[str, str], count: int
) -> None:
    status, found, log = posted(body, query, **headers)
    assert (status, found) == (202, {"accepted": count, "refused": []})
    events = [decode(each.topic, each.value, _kafka(each), WALL_MS) for each in log.records]
    for event, record, job_id in zip(events, log.records, ["run-7", "run-8"][:count], strict=True):
        assert isinstance(event, JobEvent)
        assert (event.job_id, event.source, event.gpu_milli) == (job_id, "s", 8000)
        assert record.key == job_id.encode()


def _kafka(record: OutgoingRecord) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in record.headers if not isinstance(value, str)]


def test_bytes_are_passed_on_as_they_came() -> None:
    text = b'[ {"topic":"jobs","value": {"source":"s", "id":"e1","time_ms":1780308000000 , "job_id":"a","type":"heartbeat"}} ]'
    _, _, log = posted(text)
    assert log.records[0].value in text


# -- refusals ------------------------------------------------------------------------------------------------


def test_each_refused_event_has_its_reason_and_the_others_are_written() -> None:
    bad: list[tuple[object, str, str | None]] = [
        ({"topic": "jobs", "value": {**STARTED, "type": "begun"}}, Reason.unknown_type, "type"),
        ({"topic": "jobs", "value": {"source": "s"}}, Reason.missing_field, "time_ms"),
        ({"topic": "jobs", "value": {**STARTED, "time_ms": WALL_MS + 86_400_000}}, Reason.future, "time_ms"),
        ({"topic": "prices", "value": {}}, Reason.unknown_topic, "topic"),
        ({"topic": "controls", "value": {"kind": "owner"}}, Reason.unknown_topic, "topic"),
        ({"topic": 3, "value": {}}, Reason.unknown_topic, "topic"),
        ({"topic": "jobs"}, Reason.not_an_object, None),
        (7, Reason.not_an_object, None),
        ({"topic": "jobs", "value": None}, Reason.not_an_object, None),
    ]
    good = {"topic": "jobs", "value": STARTED}
    status, found, log = posted([good, *(each for each, _, _ in bad), good])
    assert status == 202
    assert found["accepted"] == 2 == len(log.records)
    refused = [(each["index"], each["reason"], each["field"]) for each in found["refused"]]
    assert refused == [(index, reason, name) for index, (_, reason, name) in enumerate(bad, 1)]
    assert all(each["detail"] for each in found["refused"])


def test_the_meter_says_what_was_refused_since_it_started() -> None:
    async def work(client: Client) -> Any:
        before = (await client.get("/api/v1/meter", headers=LOCAL))["refused_events"]
        for value in ({**STARTED, "type": "begun"}, {**STARTED, "type": "ended?"}, {"source": "s"}):
            await post(client, {"topic": "jobs", "value": value})
        return before, (await client.get("/api/v1/meter", headers=LOCAL))["refused_events"]

    before, after = served(None, work, events=Log(), write_token=WRITE, status=lambda: GOOD)
    assert before == []
    assert [(each["reason"], each["events"]) for each in after] == [("unknown_type", 2), ("missing_field", 1)]
    assert "ended?" in after[0]["example"]


def test_what_is_shown_of_a_hostile_event_is_escaped() -> None:
    _, found, _ = posted({"topic": "jobs", "value": {**STARTED, "type": "\u202e\x1b[31m"}})
    assert "\x1b" not in found["refused"][0]["detail"]
    assert "\u202e" not in found["refused"][0]["detail"]


@pytest.mark.parametrize(
    ("body", "query", "headers", "status"),
    [
        (b"{", "?topic=jobs", {}, 400),
        (b"", "?topic=jobs", {}, 400),
        (b"\xff", "?topic=jobs", {}, 400),
        (b"[" * 100_000, "?topic=jobs", {}, 400),
        (as_cloudevent(STARTED), "", {"Content_Type": STRUCTURED}, 400),
        (STARTED, "?topic=jobs&topic=gpu", {}, 400),
        (STARTED, "?subject=jobs", {}, 400),
        (STARTED, "?topic=jobs", {"Content_Type": "text/plain"}, 415),
        (STARTED, "?topic=jobs", {"Content_Type": "application/x-www-form-urlencoded"}, 415),
        (b" " * (BODY_MAX_BYTES + 1), "?topic=jobs", {}, 413),
        (b"[" + b"0," * EVENTS_MAX + b"0]", "?topic=jobs", {}, 400),
        (STARTED, "?topic=jobs", {"Authorization": "Bearer nobody-knows-this-token"}, 401),
    ],
)
def test_a_request_that_is_none_writes_nothing(
    body: object, query: str, headers: dict[str, str], status: int
) -> None:
    found, answer, log = posted(body, query, **headers)
    assert found == status, answer
    assert not log.records


def test_without_the_scope_nobody_writes() -> None:
    async def work(client: Client) -> int:
        return (await post(client, STARTED, "?topic=jobs", Authorization=""))[0]

    log = Log()
    assert served(None, work, events=log, write_token=WRITE) == 401
    assert not log.records


def test_a_process_without_a_log_says_so() -> None:
    async def work(client: Client) -> tuple[int, Any]:
        status, found, _ = await post(client, STARTED, "?topic=jobs", **LOCAL)
        return status, found

    status, found = served(None, work)
    assert (status, found["error"]["code"]) == (403, "ingest_off")


# -- limits --------------------------------------------------------------------------------------------------


def test_a_log_that_is_away_is_answered_with_when_to_come_again() -> None:
    async def work(client: Client) -> tuple[int, Any, Any]:
        return await post(client, STARTED, "?topic=jobs")

    log = Log(fault=SinkBusy("no broker"))
    status, found, headers = served(None, work, events=log, write_token=WRITE)
    assert (status, found["error"]["code"], headers["Retry-After"]) == (503, "kafka_unavailable", "1")


def test_a_client_that_asks_too_often_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "BURST", 3)
    monkeypatch.setattr(ingest, "PER_S", 0)

    async def work(client: Client) -> list[int]:
        return [(await post(client, b"[]", "?topic=jobs"))[0] for _ in range(4)]

    assert served(None, work, events=Log(), write_token=WRITE) == [202, 202, 202, 429]


def test_more_bytes_than_may_wait_are_refused_before_they_are_read() -> None:
    log = Log(gate=asyncio.Event())
    big = json.dumps({**STARTED, "labels": {"x": "y" * 200}}).encode().ljust(BODY_MAX_BYTES, b" ")

    async def work(client: Client) -> list[int]:
        assert log.gate is not None
        sending = [
            asyncio.create_task(post(client, big, "?topic=jobs"))
            for _ in range(IN_FLIGHT_MAX_BYTES // BODY_MAX_BYTES + 1)
        ]
        done, _ = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
        first = [task.result()[0] for task in done]
        log.gate.set()
        return first + sorted([task.result()[0] for task in await _all(sending) if task not in done])

    found = served(None, work, events=log, write_token=WRITE)
    assert found == [503, *[202] * (IN_FLIGHT_MAX_BYTES // BODY_MAX_BYTES)]


async def _all(tasks: list[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    await asyncio.wait(tasks)
    return tasks
