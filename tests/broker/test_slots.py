"""Who keeps a place at the broker, as values, and over real sockets with a real client beside hostile ones."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from streams.broker import connection as connection_module
from streams.broker.broker import LocalBroker
from streams.broker.slots import CLIENTS_MAX, STRANGERS_MAX, Role, Slots
from streams.config.settings import KafkaSettings
from streams.transport.cluster import find_log
from streams.transport.security import librdkafka_config
from tests.broker.test_local import PATIENCE_S, append, event, local, send

API_VERSIONS, FETCH, HANDSHAKE, AUTHENTICATE = 18, 1, 17, 36


class Socket:
    """A connection that only notes what happens to it."""

    def __init__(self, *, busy: bool = False) -> None:
        self.busy = busy
        self.is_cut = False

    def waits_for_us(self) -> bool:
        return self.busy

    def cut(self) -> None:
        self.is_cut = True


def clients(slots: Slots, count: int, *, busy: bool = False) -> list[Socket]:
    found = [Socket(busy=busy) for _ in range(count)]
    for each in found:
        slots.arrive(each)
        assert slots.introduce(each, Role.CLIENT)
    return found


def test_the_oldest_that_has_shown_nothing_makes_room() -> None:
    slots = Slots(2, 2)
    silent = [Socket() for _ in range(3)]
    for each in silent:
        slots.arrive(each)
    assert [each.is_cut for each in silent] == [True, False, False]
    assert slots.evicted == 1
    assert not slots.introduce(silent[0], Role.CLIENT), "who was evicted has no place any more"


def test_strangers_do_not_take_places_of_clients_nor_of_the_worker() -> None:
    slots = Slots(2, 2)
    known = clients(slots, 2)
    worker = Socket()
    slots.arrive(worker)
    assert slots.introduce(worker, Role.WORKER)
    for _ in range(10):
        slots.arrive(Socket())
    assert not any(each.is_cut for each in (*known, worker))


def test_the_client_that_has_asked_nothing_for_longest_makes_room() -> None:
    slots = Slots(2, 3)
    first, second, third = clients(slots, 3)
    slots.used(first)
    second.busy = True
    clients(slots, 1)
    assert [each.is_cut for each in (first, second, third)] == [False, False, True]


def test_where_all_clients_are_answered_one_more_is_refused_and_the_worker_is_not() -> None:
    slots = Slots(2, 2)
    clients(slots, 2, busy=True)
    late, worker = Socket(), Socket()
    for each in (late, worker):
        slots.arrive(each)
    assert not slots.introduce(late, Role.CLIENT)
    assert slots.introduce(worker, Role.WORKER)
    slots.leave(worker)
    slots.leave(worker)


# -- over sockets --------------------------------------------------------------------------------------------


def framed(api_key: int, version: int, body: bytes = b"") -> bytes:
    request = struct.pack(">hhih", api_key, version, 1, 0) + body
    return struct.pack(">i", len(request)) + request


def dialled(broker: LocalBroker) -> socket.socket:
    host, _, port = broker.settings().bootstrap_servers.partition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def answered(line: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", received(line, 4))
    return received(line, size)


def is_over(line: socket.socket) -> None:
    """Check that the broker ends a connection of which nothing is read."""
    poll = select.poll()
    poll.register(line, select.POLLHUP | select.POLLERR | select.POLLRDHUP)
    assert poll.poll(PATIENCE_S * 1_000)


def received(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = line.recv(size - len(found))
        assert piece, "the connection was closed"
        found += piece
    return found


def signed_in(broker: LocalBroker, kafka: KafkaSettings | None = None) -> socket.socket:
    kafka = broker.settings() if kafka is None else kafka
    assert kafka.sasl_password is not None
    shown = f"\0{kafka.sasl_username}\0{kafka.sasl_password.get_secret_value()}".encode()
    line = dialled(broker)
    line.sendall(framed(HANDSHAKE, 1, struct.pack(">h", 5) + b"PLAIN"))
    answered(line)
    line.sendall(framed(AUTHENTICATE, 0, struct.pack(">i", len(shown)) + shown))
    assert answered(line)[4:6] == b"\0\0"
    return line


@contextmanager
def many(
    broker: LocalBroker, count: int, sent: bytes = b"", *, known: bool = False
) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        lines = [stack.enter_context(signed_in(broker) if known else dialled(broker)) for _ in range(count)]
        for line in lines:
            line.sendall(sent)
        yield lines


@pytest.mark.parametrize("sent", [b"", b"\0", framed(API_VERSIONS, 0), framed(HANDSHAKE, 1, b"\0\5PLAIN")])
def test_connections_that_show_no_password_keep_neither_a_client_nor_the_worker_out(
    tmp_path: Path, sent: bytes
) -> None:
    with local(tmp_path) as broker, many(broker, STRANGERS_MAX + 20, sent) as lines:
        assert find_log(broker.worker_settings(), PATIENCE_S).cluster_id == broker.log.id
        assert send(broker, b"a") == [None]
        is_over(lines[0])
        assert broker._reception.slots.evicted >= 20


@pytest.mark.parametrize("sent", [b"", struct.pack(">i", 2**20), framed(FETCH, 10)[:9]])
def test_clients_that_stop_in_the_midst_of_a_request_make_room(tmp_path: Path, sent: bytes) -> None:
    with local(tmp_path) as broker, many(broker, CLIENTS_MAX, sent, known=True):
        assert find_log(broker.worker_settings(), PATIENCE_S).cluster_id == broker.log.id
        assert send(broker, b"a") == [None]


def test_a_length_of_100_mib_ends_the_connection(tmp_path: Path) -> None:
    with local(tmp_path) as broker, many(broker, 1, struct.pack(">i", 100 * 2**20), known=True) as [line]:
        assert line.recv(1) == b""


def test_a_request_that_does_not_come_whole_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_REQUEST_S", 0.2)
    with local(tmp_path) as broker, many(broker, 1, struct.pack(">i", 2**20) + b"x", known=True) as [line]:
        assert line.recv(1) == b""
        assert broker._reception.budgets[Role.CLIENT].held_bytes == 0


def test_what_is_announced_holds_no_memory_and_what_came_does(tmp_path: Path) -> None:
    part = struct.pack(">i", 2**24) + bytes(100_000)
    with local(tmp_path) as broker, many(broker, 8, part, known=True):
        assert send(broker, b"a") == [None]  # they have had their turns
        assert 0 < broker._reception.budgets[Role.CLIENT].held_bytes < 9 * 100_000


def fetch_of(partition: int, max_bytes: int) -> bytes:
    """A fetch from the beginning, as FetchRequest_v10 has it, for what is there."""
    topic = b"trainfare.jobs"
    body = struct.pack(">iiiibii", -1, 0, 1, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + struct.pack(">h", len(topic)) + topic
    body += struct.pack(">i", 1) + struct.pack(">iiqqi", partition, -1, 0, -1, max_bytes)
    return framed(FETCH, 10, body + struct.pack(">i", 0))


def test_whoever_does_not_read_its_answers_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_READ_S", 0.2)
    with local(tmp_path) as broker:
        for _ in range(100):
            append(broker, [event(1)._replace(value=os.urandom(200_000))])
        partition = next(n for n in range(2) if broker.log.log_of("jobs").end(("jobs", n)))
        with many(broker, 1, fetch_of(partition, 2**26) * 16, known=True):
            deadline_s = time.monotonic() + PATIENCE_S
            while broker._connections and time.monotonic() < deadline_s:
                time.sleep(0.01)
            assert not broker._connections
        consumer = Consumer({**librdkafka_config(broker.settings()), "group.id": "g"})
        consumer.assign([TopicPartition("trainfare.jobs", partition, 0)])
        message = consumer.poll(PATIENCE_S)
        consumer.close()
    assert message is not None
    assert message.error() is None


def test_a_wrong_password_ends_the_connection_and_the_workers_is_in_no_file(tmp_path: Path) -> None:
    with local(tmp_path) as broker:
        worker = broker.worker_settings().sasl_password
        assert worker is not None
        assert worker.get_secret_value() not in (tmp_path / "log" / "client.env").read_text()
        with dialled(broker) as line:
            line.sendall(framed(AUTHENTICATE, 0, struct.pack(">i", 13) + b"\0trainfare\0no"))
            assert answered(line)[4:6] != b"\0\0"
            assert line.recv(1) == b""
        with signed_in(broker, broker.worker_settings()):
            pass
