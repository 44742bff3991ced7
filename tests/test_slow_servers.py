"""Every HTTP client of the product against servers that answer without an end: each gives up by itself, in its own words."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import urllib3
from trainfare.endpoint import LATER, Endpoint

import streams.cli.remote as remote
import streams.cli.top.sources as top
import streams.collect.ingest_publisher as ingest_publisher
from sinks.bounded_http import BoundedPool
from sinks.clickhouse import ClickHouseStore, connection
from sinks.errors import SinkError
from sinks.target import Server
from streams.clock import SystemClock
from streams.collect.collector import CollectedEvent, SourceUnavailableError
from streams.collect.dcgm.fetch import fetch_with
from streams.collect.http_source import OutsideApi
from streams.collect.kubernetes.api import ApiServer, Login
from streams.errors import TrainfareError
from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.sender import Sender
from streams.topics import Topic
from tests.slow_server import ENDLESS, endless
from tests.tls import server_and_client

_ROOT: Final = Path(__file__).parents[1]
_HANGS_S: Final = 60.0
ANSWER_S: Final = 0.3


def ended(call: Callable[[], Any]) -> Exception | None:
    """What a call ended with; a test whose call hangs fails."""
    faults: list[Exception | None] = []

    def go() -> None:
        try:
            call()
        except Exception as fault:  # noqa: BLE001 - which one is what the tests look at
            faults.append(fault)
        else:
            faults.append(None)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(_HANGS_S)
    assert faults, "it hangs"
    return faults[0]


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_collector_that_asks_over_http(kind: str) -> None:
    with endless(kind) as address:
        fault = ended(lambda: OutsideApi(address, token="s3cret", timeout_s=ANSWER_S).get("/a"))
    assert isinstance(fault, SourceUnavailableError)
    assert "no answer" in str(fault)


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_request_over_tls(kind: str) -> None:
    server, client = server_and_client()
    pool = BoundedPool(ANSWER_S, timeout=_HANGS_S, retries=False, ssl_context=client)
    with endless(kind, server) as address:
        fault = ended(lambda: pool.request("GET", address))
    assert isinstance(fault, urllib3.exceptions.HTTPError)


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_scrape_of_an_exporter(kind: str) -> None:
    with endless(kind) as address:
        fault = ended(lambda: fetch_with(SystemClock(), ANSWER_S, 1)(address))
    assert isinstance(fault, (OSError, urllib3.exceptions.HTTPError))


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_collector_that_publishes_over_http(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_publisher, "_TIMEOUT_S", ANSWER_S)
    with endless(kind) as address:
        publisher = ingest_publisher.IngestPublisher(address, "token")
        assert isinstance(ended(lambda: publisher.publish([CollectedEvent(Topic.JOBS, {})])), TrainfareError)


@pytest.mark.parametrize("kind", ENDLESS)
def test_the_collector_of_kubernetes(kind: str) -> None:
    with endless(kind) as address:
        api = ApiServer(
            Login(address, None, None, None, None), SystemClock(), timeout_s=ANSWER_S / 10, object_bytes=1_000
        )
        assert isinstance(ended(lambda: list(api.list("/api/v1/pods", {}))), SourceUnavailableError)
        # A watch is silent for long where nothing happens; only an end is asked of it.
        assert isinstance(ended(lambda: list(api.watch("/api/v1/pods", {}, "1", 0))), SourceUnavailableError)


@pytest.mark.parametrize("kind", ENDLESS)
def test_commands_that_ask_a_worker(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_ANSWER_S", ANSWER_S)
    monkeypatch.setattr(top, "_ANSWER_S", ANSWER_S)
    with endless(kind) as address:
        assert isinstance(
            ended(lambda: remote.RemoteReader(address, None).ask("SELECT 1", {})), TrainfareError
        )
        assert isinstance(ended(lambda: top.HttpSource(address).fetch()), TrainfareError)


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_store(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_TIMEOUTS_OF_AN_ANSWER", 1)
    with endless(kind) as address:
        target = Server(url=address, connect_timeout_s=1, request_timeout_s=1, retry_for_s=0.1)
        assert isinstance(ended(lambda: ClickHouseStore(target).query("SELECT 1")), SinkError)


@pytest.mark.parametrize("kind", ENDLESS)
def test_the_sdk(kind: str) -> None:
    with endless(kind) as address:
        endpoint = Endpoint(address, "token", ANSWER_S)
        outcomes = []
        assert ended(lambda: outcomes.append(endpoint.post([b"{}"]))) is None
        assert [each.kind for each in outcomes] == [LATER]
        assert ended(lambda: endpoint.get("/a")) is not None


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_webhook(kind: str) -> None:
    """The status counts, though the rest never comes."""
    with endless(kind) as address:
        sender = Sender(ReceiverGuard("127.0.0.1"), timeout_ms=round(ANSWER_S * 1000))
        results = []
        assert ended(lambda: results.append(asyncio.run(sender.post(address, b"{}", {})))) is None
        assert results[0].verdict in ("retry", "delivered")


def test_what_is_silent_for_long_is_given_up_before_the_deadline() -> None:
    pool = BoundedPool(_HANGS_S * 10, timeout=ANSWER_S, retries=False)
    with endless("silence") as address:
        assert isinstance(ended(lambda: pool.request("GET", address)), urllib3.exceptions.ReadTimeoutError)


def test_each_request_of_a_connection_has_a_deadline_of_its_own() -> None:
    """By a clock that stands still while a request runs, however much time has passed between two."""
    now_s = [0.0]
    pool = BoundedPool(1.0, monotonic_s=lambda: now_s[0], timeout=_HANGS_S, retries=False, maxsize=1)
    with endless("a body of few bytes at a time") as address:
        for _ in range(2):
            with pool.request("GET", address, preload_content=False) as answer:
                assert answer.read(1) == b" "
                now_s[0] += 2.0
                with pytest.raises(urllib3.exceptions.ReadTimeoutError):
                    answer.read(1_000_000)


_CLIENTS: Final = re.compile(
    r"urllib3\.(PoolManager|HTTPConnectionPool|HTTPSConnectionPool|request)\(|urlopen\(|http\.client\.HTTP|HTTPConnection\(|"
    r"ClientSession\(|get_client\(|^\s*(import|from) (requests|httpx)\b",
    re.MULTILINE,
)
#: Those that are tested above, by what bounds them.
_BOUNDED: Final = {
    "sdk/trainfare/endpoint.py": "_Bounded",
    "streams/notify/webhooks/sender.py": "ClientTimeout(total=",
    "streams/web/sign_in/provider.py": "ClientTimeout(total=",
    "sinks/clickhouse/connection.py": "pool_mgr=driver_pool(",
    "sinks/query/server.py": "pool_mgr=driver_pool(",
    "sinks/embedded_engine.py": 'interface="chdb"',
}


def test_there_is_no_client_without_a_deadline() -> None:
    found = {
        str(path.relative_to(_ROOT)): text
        for part in ("streams", "sinks", "schemas", "sdk")
        for path in sorted((_ROOT / part).rglob("*.py"))
        if _CLIENTS.search(text := path.read_text())
    }
    assert found.keys() == _BOUNDED.keys()
    assert all(words in found[path] for path, words in _BOUNDED.items())
    assert _CLIENTS.search("    pool = urllib3.PoolManager(timeout=3)")
