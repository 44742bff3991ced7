"""Exporters that hang, trickle or answer nonsense: what happens to the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from streams.clock import Clock, ManualClock, SystemClock
from streams.collect.collector import EventBatch, SourceUnavailableError
from streams.collect.dcgm.collector import DcgmCollector
from streams.collect.dcgm.fetch import fetch_with
from streams.collect.dcgm.options import Options
from tests.collect.dcgm_world import INTERVAL_MS, T0_MS, text


class Exporters:
    """Exporters by address; each answers, hangs until its time is over, or has a fault."""

    def __init__(self, *nodes: str) -> None:
        self.options = Options(targets=[f"http://{node}/" for node in nodes], max_concurrent_scrapes=2)
        self.faults: dict[str, Exception] = {}
        self.asked: list[str] = []

    def fetch(self, address: str) -> bytes:
        node = address.split("/")[2]
        self.asked.append(node)
        if node in self.faults:
            raise self.faults[node]
        return text(node, 0).encode()

    def poll(self, collector: DcgmCollector, number: int) -> tuple[set[str], EventBatch]:
        """Return whose samples there are, and the last batch."""
        self.asked.clear()
        batches = list(collector.poll(None, T0_MS + number * INTERVAL_MS))
        return {event.value["node"] for batch in batches for event in batch.events}, batches[-1]


def test_one_that_is_silent_is_said_and_the_others_are_sampled() -> None:
    world = Exporters("n1", "n2", "n3")
    world.faults["n2"] = ValueError("answered 503")
    nodes, last = world.poll(DcgmCollector(world.options, world.fetch), 0)
    assert nodes == {"n1", "n3"}
    assert (last.account.said, last.account.reasons) == (["http://n2/: answered 503"], {"no_answer": 1})


def test_one_that_comes_back_is_no_longer_said() -> None:
    world = Exporters("n1", "n2")
    world.faults["n2"] = ValueError("answered 503")
    collector = DcgmCollector(world.options, world.fetch)
    world.poll(collector, 0)
    del world.faults["n2"]
    nodes, last = world.poll(collector, 1)
    assert nodes == {"n1", "n2"}
    assert (last.account.said, last.account.reasons) == ([], {})


def test_those_that_were_silent_are_asked_last() -> None:
    world = Exporters("n1", "n2", "n3", "n4")
    world.faults["n1"] = ValueError("answered 503")
    collector = DcgmCollector(world.options, world.fetch)
    world.poll(collector, 0)
    world.poll(collector, 1)
    assert world.asked.index("n1") >= 2  # two are asked at the same time


@pytest.mark.parametrize("fault", [TimeoutError("x"), urllib3.exceptions.TimeoutError("x")])
def test_those_that_hang_take_turns(fault: Exception) -> None:
    """A rack without power must not take all threads at every poll."""
    world = Exporters("n0", *(f"hangs{number}" for number in range(16)))
    for number in range(16):
        world.faults[f"hangs{number}"] = fault
    collector = DcgmCollector(world.options, world.fetch)
    asked: Counter[str] = Counter()
    for number in range(32):
        _, last = world.poll(collector, number)
        assert last.account.reasons == {"no_answer": 16}
        if number >= 16:
            assert len(world.asked) <= 5
            asked.update(world.asked)
    assert set(asked.values()) == {2, 16}  # each in eight polls, n0 in each


def test_none_of_them_answers() -> None:
    world = Exporters("n1")
    world.faults["n1"] = TimeoutError("took more than 5 s")
    collector = DcgmCollector(world.options, world.fetch)
    for number in range(4):
        with pytest.raises(
            SourceUnavailableError, match="no exporter of 1 answers; http://n1/: took more than 5 s"
        ):
            list(collector.poll(None, T0_MS + number * INTERVAL_MS))


def test_samples_of_the_others_do_not_wait_for_one_that_was_silent_before() -> None:
    world, hang = Exporters("n1", "n2"), threading.Event()
    world.faults["n2"] = ValueError("answered 503")
    collector = DcgmCollector(
        world.options, lambda address: world.fetch(address) if "n1" in address or hang.wait(60) else b""
    )
    hang.set()
    world.poll(collector, 0)
    hang.clear()
    polled = collector.poll(None, T0_MS + INTERVAL_MS)
    assert {event.value["node"] for event in next(polled).events} == {"n1"}
    hang.set()
    assert next(polled).account.said == ["http://n2/: answered 503"]


@contextmanager
def exporter(*pieces: bytes) -> Iterator[str]:
    """Serve an answer piece by piece, each after the client has taken the one before."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def test_text_comes_whole() -> None:
    with exporter(b"a" * 300_000, b"b") as address:
        assert fetch_with(SystemClock(), 60, 1)(address) == b"a" * 300_000 + b"b"


def test_one_that_trickles_is_left() -> None:
    class Hasty(ManualClock):
        """Each look at it takes a second."""

        def monotonic_ms(self) -> int:
            self.advance(1_000)
            return super().monotonic_ms()

    clock: Clock = Hasty()
    with exporter(*[b"a" * 300_000] * 8) as address, pytest.raises(TimeoutError, match=r"took more than 3 s"):
        fetch_with(clock, 3, 1)(address)


def test_an_endless_answer_is_left() -> None:
    with (
        exporter(*[b"a" * 2**20] * 17) as address,
        pytest.raises(ValueError, match="more than 16777216 bytes"),
    ):
        fetch_with(SystemClock(), 60, 1)(address)
