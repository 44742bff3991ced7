"""Acting over HTTP: who may, what is written, what is refused, and what a flood or a log that is away does."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from schemas.control_table import CONTROLS
from schemas.decode import decode
from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkBusy
from streams.engine.alerts.controls import Controls
from streams.engine.state.dimensions import AlertDimensions
from streams.keys import OutgoingRecord
from streams.notify.receiver_check import ReceiverCheckResult
from streams.topics import Topic
from streams.web.control_record import FieldError, control_record
from streams.web.controls import BODY_MAX_BYTES, BURST, BURST_OF_TOKEN, WAITING_MAX
from streams.worker.storing.control_rows import control_table
from tests.web.log import AS_OF_MS
from tests.web.serving import LOCAL, LOCAL_TOKEN, TOKEN, WALL_MS, Client, served
from tests.web.test_scopes import bearer

WRITE = "may-write-and-nothing-else"
ALERT = "al_8fe63f15d88e32e0d55fbafd"
ACK: dict[str, Any] = {"kind": "ack", "alert_id": ALERT, "until_ms": WALL_MS + 1000, "comment": "on it"}
SILENCE: dict[str, Any] = {
    "kind": "silence",
    "job_id": "b",
    "rule": "burn_fast",
    "until_ms": WALL_MS + 3_600_000,
}
PLANNED: dict[str, Any] = {
    "kind": "planned",
    "job_id": "b",
    "until_ms": WALL_MS + 3_600_000,
    "usd_per_hour": "440.33",
}
BUDGET: dict[str, Any] = {"kind": "budget", "name": "sweep", "experiment": "lr", "usd": "100", "per": "run"}

RECEIPT: dict[str, Any] = {"kind": "receipt", "owner": "ada", "on": True, "comment": "monthly report"}
SOURCE = {"kind": "source", "name": "slurm", "polls": 1, "entries": {"metered": 1}, "standing": []}


@dataclass
class Log:
    """Takes records; `fault` refuses them, `gate` holds them until it is set."""

    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    fault: Exception | None = None
    gate: asyncio.Event | None = None
    waiting: asyncio.Semaphore | None = None

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        if self.gate is not None and self.waiting is not None:
            self.waiting.release()
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        assert all(each.topic == Topic.CONTROLS for each in records)
        self.records += [(each.key, each.value) for each in records]


async def post(client: Client, body: object, **options: Any) -> tuple[int, Any, Any]:
    headers = {**bearer(WRITE), **options.pop("headers", {})}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers.setdefault("Content-Type", "application/json")
    url = f"{client.server.url}/api/v1/controls"
    async with client.session.post(url, data=data, headers=headers, **options) as answer:
        return answer.status, await answer.json(), answer.headers


def posted(
    body: object, log: Log | None = None, headers: dict[str, str] | None = None, **settings: Any
) -> tuple[int, Any]:
    async def work(client: Client) -> tuple[int, Any]:
        status, found, _ = await post(client, body, headers=headers or {})
        return status, found

    settings.setdefault("write_token", WRITE)
    return served(None, work, controls=Log() if log is None else log, **settings)


# -- what is written -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", [ACK, {**ACK, "job_id": "b", "usd_per_hour": "637.50"}, SILENCE, PLANNED, BUDGET, RECEIPT, SOURCE]
)
def test_a_record_is_written_and_says_who(body: dict[str, Any]) -> None:
    log = Log()
    status, found = posted(body, log)
    assert status == 202, found
    ((key, value),) = log.records
    event = decode("controls", value, (), WALL_MS)
    assert isinstance(event, ControlEvent)
    assert (event.kind, event.time_ms, event.value["by"]) == (body["kind"], WALL_MS, "web.write_token")
    assert key == f"{event.kind}/{event.name}".encode()
    assert found == {"kind": event.kind, "name": event.name, "id": event.id, "by": "web.write_token"}
    assert {**event.value, "kind": event.kind} == {**body, "by": "web.write_token"} or body in (
        BUDGET,
        RECEIPT,
        SOURCE,
    )
    assert Controls.from_events([event]).faults == ()


@pytest.mark.parametrize(("by", "name"), [("web.write_token", "slurm (write_token)"), ("web.token", "slurm")])
def test_a_source_of_another_token_is_a_source_of_its_own(by: str, name: str) -> None:
    record = control_record(SOURCE, by, WALL_MS)
    assert (record.name, record.key) == (name, f"source/{name}".encode())


def test_the_name_of_a_source_is_a_text_whatever_its_token() -> None:
    for by in ("web.write_token", "web.token"):
        with pytest.raises(FieldError):
            control_record({**SOURCE, "name": 7}, by, WALL_MS)


def test_a_silence_silences_that_alert_and_no_other() -> None:
    log = Log()
    posted(SILENCE, log)
    event = decode("controls", log.records[0][1], (), WALL_MS)
    assert isinstance(event, ControlEvent)
    controls = Controls.from_events([event])
    assert controls.silenced(AlertDimensions("b"), "burn_fast", "page", WALL_MS)
    assert not controls.silenced(AlertDimensions("b"), "burn_drift", "page", WALL_MS)
    assert not controls.silenced(AlertDimensions("c"), "burn_fast", "page", WALL_MS)


def test_a_retry_writes_the_same_record_and_another_act_on_the_same_replaces_it() -> None:
    log = Log()

    async def work(client: Client) -> None:
        for body in (SILENCE, SILENCE, {**SILENCE, "until_ms": WALL_MS + 1}):
            assert (await post(client, body))[0] == 202

    served(None, work, controls=log, write_token=WRITE)
    first, again, other = log.records
    assert first == again
    assert first[0] == other[0]
    assert first[1] != other[1]


def test_receipts_are_asked_for_under_the_name_that_people_write_by_hand() -> None:
    log = Log()
    posted(RECEIPT, log)
    posted({**RECEIPT, "on": False}, log)
    posted({"kind": "receipt", "team": "vision", "owner": "ada", "on": True}, log)
    assert [key for key, _ in log.records] == [b"receipt/ada", b"receipt/ada", b"receipt/vision/ada"]
    events = {key: decode("controls", value, (), WALL_MS) for key, value in log.records}
    controls = Controls.from_events(event for event in events.values() if isinstance(event, ControlEvent))
    assert sorted((each.owner, each.team, each.on) for each in controls.receipts) == [
        ("ada", "", False), ("ada", "vision", True),
    ]  # fmt: skip


@dataclass
class NoReceivers:
    """No owner has an address."""

    def nobody(self, owner: str) -> str:
        return f"owner {owner} has no address"

    async def send(self, owner: str) -> Sequence[ReceiverCheckResult]:
        raise AssertionError(owner)


def test_receipts_that_nobody_would_get_are_written_and_said_to_be_unsent() -> None:
    status, found = posted(RECEIPT, receivers=NoReceivers())
    assert (status, found["not_sent"]) == (202, "owner ada has no address")
    for other in ({**RECEIPT, "on": False}, SILENCE):
        assert "not_sent" not in posted(other, receivers=NoReceivers())[1]


def test_an_instant_that_has_passed_ends_the_control_that_is_named() -> None:
    log = Log()
    posted({**SILENCE, "name": "night", "until_ms": WALL_MS}, log)
    posted({**ACK, "until_ms": WALL_MS}, log)
    assert [key for key, _ in log.records] == [b"silence/night", f"ack/{ALERT}".encode()]


def test_the_token_that_was_shown_is_recorded() -> None:
    log = Log()
    posted(ACK, log, {"Authorization": f"Bearer {LOCAL_TOKEN}"})
    assert json.loads(log.records[0][1])["by"] == "local token"


# -- what is refused -----------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({**ACK, "alert_id": "al_1"}, "alert_id"),
    ({**ACK, "alert_id": f"{ALERT}\n"}, "alert_id"),
    ({**ACK, "alert_id": "al_8FE63F15D88E32E0D55FBAFD"}, "alert_id"),
    ({**ACK, "alert_id": None}, "alert_id"),
    ({**ACK, "alert_id": ["al_8fe63f15d88e32e0d55fbafd"]}, "alert_id"),
    ({**ACK, "name": "al_000000000000000000000000"}, "name"),
    ({**ACK, "job_id": "b"}, "usd_per_hour"),
    ({**ACK, "owner": "b"}, "owner"),
    ({**ACK, "by": "somebody else"}, "by"),
    ({**ACK, "source": "s"}, "source"),
    ({**ACK, "time_ms": 1}, "time_ms"),
    ({**ACK, "until_ms": None}, "until_ms"),
    ({**ACK, "until_ms": True}, "until_ms"),
    ({**ACK, "until_ms": "soon"}, "until_ms"),
    ({**ACK, "until_ms": 2**70}, "until_ms"),
    ({**ACK, "comment": "x" * 5_000}, "comment"),
    ({**SILENCE, "until_ms": WALL_MS * 2}, "until_ms"),
    ({**SILENCE, "until_ms": WALL_MS}, "until_ms"),
    ({**PLANNED, "until_ms": WALL_MS - 1}, "until_ms"),
    ({**SILENCE, "gpu": "H100"}, "gpu"),
    ({**SILENCE, "job_id": "x" * 257}, "job_id"),
    ({**SILENCE, "job_id": 7}, "job_id"),
    ({**SILENCE, "name": "x" * 257}, "name"),
    ({**SILENCE, "match": "b"}, "match"),
    ({**SILENCE, "from_ms": WALL_MS * 2}, "until_ms"),
    ({"kind": "silence", "until_ms": WALL_MS + 1}, "match"),
    ({"kind": "silence", "until_ms": WALL_MS + 1, "match": {}}, "match"),
    ({"kind": "silence", "until_ms": WALL_MS + 1, "job_id": None}, "match"),
    ({**PLANNED, "usd_per_hour": "-1"}, "usd_per_hour"),
    ({**PLANNED, "usd_per_hour": None}, "usd_per_hour"),
    ({**PLANNED, "usd_per_hour": "1e9"}, "usd_per_hour"),
    ({**BUDGET, "usd": "much"}, "usd"),
    ({**BUDGET, "name": None}, "name"),
    ({**BUDGET, "webhook": "http://169.254.169.254/"}, "webhook"),
    ({"kind": "owner", "name": "ada", "webhook": "https://evil.example"}, "kind"),
    ({"kind": "override", "name": "x"}, "until_ms"),
    ({"kind": "receipt", "on": True}, "owner"),
    ({**RECEIPT, "owner": ""}, "owner"),
    ({**RECEIPT, "owner": 7}, "owner"),
    ({**RECEIPT, "on": "yes"}, "on"),
    ({"kind": "receipt", "owner": "ada"}, "on"),
    ({**RECEIPT, "webhook": "https://evil.example"}, "webhook"),
    ({**RECEIPT, "until_ms": WALL_MS + 1}, "until_ms"),
    ({**RECEIPT, "job_id": "b"}, "job_id"),
    ({"kind": ["ack"]}, "kind"),
    ({}, "kind"),
]


@pytest.mark.parametrize(("body", "where"), REFUSED)
def test_what_is_refused_names_its_field(body: dict[str, Any], where: str) -> None:
    with pytest.raises(FieldError) as refused:
        control_record(body, "web.write_token", WALL_MS)
    assert refused.value.field.startswith(where)


@pytest.mark.parametrize(("body", "where"), [REFUSED[0], REFUSED[18]])
def test_what_is_refused_is_not_written(body: dict[str, Any], where: str) -> None:
    log = Log()
    status, found = posted(body, log)
    assert (status, found["error"]["field"]) == (400, where)
    assert not log.records


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'{"kind": "ack", "comment": "\xff"}', b"[" * 9_000, b'{"a": NaN}']
)
def test_what_is_no_object_of_json_is_refused(body: bytes) -> None:
    log = Log()
    status, found = posted(body, log)
    assert (status, found["error"]["code"]) == (400, "bad_request")
    assert not log.records


def test_only_json_is_taken() -> None:
    # What a form of another site can send without asking first.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        status, found = posted(ACK, headers={"Content-Type": kind})
        assert status == 415, (kind, found)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_body_is_refused_before_it_is_read(*, chunked: bool) -> None:
    async def pieces() -> Any:
        for _ in range(64):
            yield b" " * 4096

    async def work(client: Client) -> None:
        url = f"{client.server.url}/api/v1/controls"
        headers = {**bearer(WRITE), "Content-Type": "application/json"}
        data = pieces() if chunked else b" " * (BODY_MAX_BYTES + 1)
        async with client.session.post(url, data=data, headers=headers) as answer:
            assert answer.status == 413

    log = Log()
    served(None, work, controls=log, write_token=WRITE)
    assert not log.records


# -- who may -------------------------------------------------------------------------------------------------


def test_without_a_token_that_may_write_nothing_is_and_the_answer_says_how_to() -> None:
    status, found = posted(ACK, read_token="reads-and-nothing-else", write_token=None, local_token=None)
    assert (status, found["error"]["code"]) == (403, "acting_off")
    assert "web.write_token (TRAINFARE_WEB_WRITE_TOKEN)" in found["error"]["message"]


@pytest.mark.parametrize(
    ("shown", "status"), [({}, 401), (bearer("a-guess-of-sixteen-1"), 401), (bearer(TOKEN), 403)]
)
def test_other_tokens_write_nothing(shown: dict[str, str], status: int) -> None:
    log = Log()
    headers = shown or {"Authorization": ""}
    assert posted(ACK, log, headers, read_token=TOKEN)[0] == status
    assert not log.records


def test_the_pages_session_does_not_write() -> None:
    log = Log()

    async def work(client: Client) -> None:
        page = f"{client.server.url}/?token={WRITE}"
        async with client.session.get(page, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert (await post(client, ACK, headers={"Authorization": "", "Cookie": cookie}))[0] == 403

    served(None, work, controls=log, write_token=WRITE)
    assert not log.records


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
    ],
)
def test_a_page_of_another_site_writes_nothing_whatever_token_it_has(headers: dict[str, str]) -> None:
    log = Log()
    status, found = posted(ACK, log, headers)
    assert (status, found["error"]["code"] in ("origin_refused", "host_refused")) == (403, True)
    assert not log.records


def test_another_method_is_refused_and_no_other_site_is_allowed_to_ask() -> None:
    async def work(client: Client) -> None:
        url = f"{client.server.url}/api/v1/controls"
        for method in ("GET", "PUT", "OPTIONS"):
            async with client.session.request(method, url, headers=bearer(WRITE)) as answer:
                assert answer.status == 405
                assert not [name for name in answer.headers if name.startswith("Access-Control")]

    served(None, work, controls=Log(), write_token=WRITE)


def test_a_process_without_a_log_says_so() -> None:
    async def work(client: Client) -> None:
        status, found, _ = await post(client, ACK)
        assert (status, found["error"]["code"]) == (403, "acting_off")

    served(None, work, write_token=WRITE)


# -- floods, and a log that is away --------------------------------------------------------------------------


def test_a_flood_is_refused_and_little_of_it_is_written() -> None:
    log = Log()

    async def work(client: Client) -> None:
        found = await asyncio.gather(*(post(client, {**ACK, "comment": str(at)}) for at in range(1_000)))
        statuses = [status for status, _, _ in found]
        assert set(statuses) <= {202, 429, 503}
        refused = [headers for status, _, headers in found if status == 429]
        assert len(refused) > 900
        assert {headers["Retry-After"] for headers in refused} == {"1"}

    served(None, work, controls=log, write_token=WRITE, max_connections_per_address=128)
    assert BURST // 2 <= len(log.records) <= BURST_OF_TOKEN


def test_when_kafka_is_away_the_answer_says_to_try_again_and_the_same_is_written_then() -> None:
    log = Log(fault=SinkBusy("topic trainfare.controls has not taken the record"))

    async def work(client: Client) -> None:
        status, found, headers = await post(client, ACK)
        assert (status, headers["Retry-After"], found["error"]["code"]) == (503, "5", "kafka_unavailable")
        log.fault = None
        assert (await post(client, ACK))[0] == 202

    served(None, work, controls=log, write_token=WRITE)
    assert len(log.records) == 1


def test_few_wait_for_kafka_at_a_time() -> None:
    async def work(client: Client) -> None:
        log.gate, log.waiting = asyncio.Event(), asyncio.Semaphore(0)
        waiting = [asyncio.create_task(post(client, ACK)) for _ in range(WAITING_MAX)]
        for _ in waiting:
            await log.waiting.acquire()
        status, _, headers = await post(client, ACK)
        assert (status, headers["Retry-After"]) == (503, "5")
        log.gate.set()
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [202] * WAITING_MAX

    log = Log()
    served(None, work, controls=log, write_token=WRITE)


def test_acts_of_one_token_that_wait_for_kafka_keep_no_other_token_from_acting() -> None:
    async def work(client: Client) -> int:
        log.gate, log.waiting = asyncio.Event(), asyncio.Semaphore(0)
        waiting = [asyncio.create_task(post(client, ACK)) for _ in range(WAITING_MAX)]
        for _ in waiting:
            await log.waiting.acquire()
        other = asyncio.create_task(post(client, ACK, headers=LOCAL))
        arrived: list[asyncio.Task[Any]] = [other, asyncio.create_task(log.waiting.acquire())]
        await asyncio.wait(arrived, return_when=asyncio.FIRST_COMPLETED)
        log.gate.set()
        await asyncio.gather(*waiting)
        return (await other)[0]

    log = Log()
    assert served(None, work, controls=log, write_token=WRITE) == 202


# -- what is shown -------------------------------------------------------------------------------------------


_offsets = itertools.count()


@contextmanager
def acted(store: ClickHouseStore, *controls: ControlEvent) -> Iterator[None]:
    """Put controls into the store, and the removal of each after the test."""
    _put(store, [(f"{each.kind}/{each.name}".encode(), each) for each in controls])
    yield
    _put(store, [(f"{each.kind}/{each.name}".encode(), None) for each in controls])


def _put(store: ClickHouseStore, records: list[tuple[bytes, ControlEvent | None]]) -> None:
    log = [(AS_OF_MS - 1000, key, event) for key, event in records]
    offsets = [next(_offsets) for _ in log]
    store.insert(CONTROLS, control_table(log, offsets), f"controls:{offsets[0]}")


def test_an_alert_says_who_acknowledged_silenced_and_planned_it_and_until_when(
    store: ClickHouseStore,
) -> None:
    def control(kind: str, name: str, **value: object) -> ControlEvent:
        return ControlEvent("web", name, 1, kind, name, {"by": "web.write_token", **value})

    later_ms, past_ms = WALL_MS + 5_000, AS_OF_MS - 5_000

    async def work(client: Client) -> dict[str, Any]:
        found = await client.get("/api/v1/alerts?status=firing")
        assert found["may_act"] is True
        alerts: list[dict[str, Any]] = found["alerts"]
        return alerts[0]

    settings: dict[str, Any] = {"controls": Log()}
    before = served(store, work, **settings)
    assert (before["acknowledged"], before["silenced_by"], before["planned_by"]) == (None, None, None)
    alert_id = before["alert_id"]
    acts = (
        control("ack", "a", alert_id=alert_id, until_ms=later_ms, comment="\x1b[31mon it\u202e"),
        control("ack", "b", alert_id=alert_id, until_ms=past_ms),
        control("silence", "s", job_id=before["subject"]["name"], rule=before["rule"], until_ms=later_ms),
        control("silence", "t", job_id="another", until_ms=later_ms),
        control("planned", "p", team=before["team"], until_ms=later_ms, usd_per_hour="12.5"),
        control("silence", "malformed", gpu="H100"),
    )
    with acted(store, *acts):
        found = served(store, work, **settings)
    shown = found["acknowledged"]
    assert (shown["by"], shown["until_ms"], shown["comment"]) == (
        "web.write_token",
        later_ms,
        "\x1b[31mon it\u202e",
    )
    assert (found["silenced_by"]["name"], found["silenced_by"]["until_ms"]) == ("s", later_ms)
    assert found["planned_by"]["usd_per_hour"] == "12.500000000"
    after = served(store, work, **settings)
    assert (after["acknowledged"], after["silenced_by"], after["planned_by"]) == (None, None, None)


def test_a_page_is_told_whether_it_may_act(store: ClickHouseStore) -> None:
    async def work(client: Client) -> bool:
        found = await client.get("/api/v1/alerts", headers=LOCAL)
        return bool(found["may_act"])

    assert served(store, work, controls=Log())
    assert not served(store, work)
    assert not served(store, work, controls=Log(), local_token=None)
