"""Bodies in gzip: the same events as of plain ones, within the same limits, unpacked beside the event loop."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from typing import Any

import pytest

from streams.web import ingest
from streams.web.ingest import BODY_MAX_BYTES, IN_FLIGHT_MAX_BYTES
from streams.web.otlp.endpoint import PROTOBUF
from tests.web.otlp.test_otlp import T0_MS, TRACES, attribute, sent
from tests.web.serving import LOCAL, Client, served
from tests.web.test_ingest import STARTED, WRITE, Log, post, posted

POINT = {
    "timeUnixNano": T0_MS * 10**6,
    "asDouble": 0.5,
    "attributes": [attribute("trainfare.job.id", "run-7")],
}
GAUGE = {"name": "trainfare.quality.loss", "gauge": {"dataPoints": [POINT]}}
POINTS = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [GAUGE]}]}]}).encode()
EVENTS = json.dumps([STARTED, {**STARTED, "id": "e2"}]).encode()


@pytest.mark.parametrize(
    ("path", "body", "content_type"),
    [("/v1/traces", TRACES, PROTOBUF), ("/v1/metrics", POINTS, "application/json")],
)
def test_telemetry_in_gzip_makes_the_events_of_plain_one(path: str, body: bytes, content_type: str) -> None:
    plain = sent(body, content_type, path)
    assert plain[0] == 200
    half = len(body) // 2
    for packed in (gzip.compress(body), gzip.compress(body[:half]) + gzip.compress(body[half:])):
        found = sent(packed, content_type, path, Content_Encoding="gzip")
        assert found[:3] == plain[:3]
        assert found[3].records == plain[3].records != []


def test_events_in_gzip_are_the_same_records() -> None:
    plain, packed = (
        posted(EVENTS, "?topic=jobs"),
        posted(gzip.compress(EVENTS), "?topic=jobs", Content_Encoding="gzip"),
    )
    assert packed[:2] == plain[:2] == (202, {"accepted": 2, "refused": []})
    assert packed[2].records == plain[2].records


def test_a_body_may_say_that_it_is_plain_and_names_have_no_case() -> None:
    assert posted(EVENTS, "?topic=jobs", Content_Encoding="identity")[0] == 202
    assert posted(gzip.compress(EVENTS), "?topic=jobs", Content_Encoding="GZip")[0] == 202


@pytest.mark.parametrize(
    "encoding", ["deflate", "br", "zstd", "x-gzip", "gzip, gzip", "gzip, identity", "\x80", ""]
)
def test_other_encodings_are_refused(encoding: str) -> None:
    for status, answer, _, log in (
        sent(gzip.compress(TRACES), PROTOBUF, Content_Encoding=encoding),
        sent(gzip.compress(POINTS), path="/v1/metrics", Content_Encoding=encoding),
    ):
        assert (status, log.records) == (415, [])
        assert b"send the body as it is, or as gzip with this one Content-Encoding" in answer
    assert posted(gzip.compress(EVENTS), "?topic=jobs", Content_Encoding=encoding)[0] == 415


@pytest.mark.parametrize("path", ["/api/v1/controls", "/api/v1/query", "/api/v1/hooks/github"])
def test_other_paths_take_no_gzip(path: str) -> None:
    status, answer, _, _ = sent(
        gzip.compress(b"{}"), path=path, Authorization=LOCAL["Authorization"], Content_Encoding="gzip"
    )
    assert status == 415
    assert b"send the body as it is, without a Content-Encoding" in answer


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(TRACES)[:-1],
        gzip.compress(TRACES)[:20],
        gzip.compress(TRACES) + b"and more",
        gzip.compress(TRACES)[:-8] + bytes(8),
        TRACES,
    ],
    ids=["cut", "cut-early", "followed", "damaged", "plain"],
)
def test_what_is_not_whole_gzip_is_refused_as_a_whole(body: bytes) -> None:
    status, answer, _, log = sent(body, PROTOBUF, Content_Encoding="gzip")
    assert (status, log.records) == (400, [])
    assert b"the body is not gzip, as its Content-Encoding says: " in answer
    assert b"Traceback" not in answer
    assert posted(body, "?topic=jobs", Content_Encoding="gzip")[0] == 400


def test_a_body_unpacks_to_as_much_as_a_plain_one_may_have_and_no_more() -> None:
    most = EVENTS.ljust(BODY_MAX_BYTES)
    assert posted(gzip.compress(most), "?topic=jobs", Content_Encoding="gzip")[:2] == (
        202,
        {"accepted": 2, "refused": []},
    )
    status, found, log = posted(gzip.compress(most + b" "), "?topic=jobs", Content_Encoding="gzip")
    assert (status, found["error"]["code"], log.records) == (413, "too_large", [])
    assert found["error"]["message"] == (
        "the body unpacks to more than 4194304 bytes; send fewer events at once"
    )
    bomb = gzip.compress(bytes(1000 * 2**20))
    assert len(bomb) < BODY_MAX_BYTES
    status, answer, _, _ = sent(bomb, PROTOBUF, Content_Encoding="gzip")
    assert status == 413
    assert b"unpacks to more than" in answer


def test_the_packed_body_has_the_same_limit() -> None:
    assert posted(bytes(BODY_MAX_BYTES + 1), "?topic=jobs", Content_Encoding="gzip")[0] == 413


def test_it_is_unpacked_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def noted(body: bytes, most_bytes: int) -> bytes:
        names.append(threading.current_thread().name)
        return gzip.decompress(body)[:most_bytes]

    monkeypatch.setattr(ingest, "unpacked_body", noted)
    assert sent(gzip.compress(TRACES), PROTOBUF, Content_Encoding="gzip")[0] == 200
    assert posted(gzip.compress(EVENTS), "?topic=jobs", Content_Encoding="gzip")[0] == 202
    assert [name.partition("_")[0] for name in names] == ["bodies", "bodies"]


def test_unpacked_bytes_count_among_those_that_may_wait() -> None:
    log = Log(gate=asyncio.Event())
    packed = gzip.compress(EVENTS.ljust(BODY_MAX_BYTES))

    async def work(client: Client) -> tuple[list[int], Any]:
        assert log.gate is not None
        tasks = [
            asyncio.create_task(post(client, packed, "?topic=jobs", Content_Encoding="gzip"))
            for _ in range(IN_FLIGHT_MAX_BYTES // BODY_MAX_BYTES)
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        log.gate.set()
        found = sorted([(await task)[0] for task in tasks])
        # Bombs and broken bodies give back what they held.
        for body in [gzip.compress(bytes(2 * BODY_MAX_BYTES)), b"none"] * 10:
            assert (await post(client, body, "?topic=jobs", Content_Encoding="gzip"))[0] in {400, 413}
        return found, (await post(client, packed, "?topic=jobs", Content_Encoding="gzip"))[1]

    found, last = served(None, work, events=log, write_token=WRITE)
    # Each holds its packed bytes, too: for the last one the room is some kilobytes too small.
    assert found == [*[202] * (IN_FLIGHT_MAX_BYTES // BODY_MAX_BYTES - 1), 503]
    assert last == {"accepted": 2, "refused": []}
