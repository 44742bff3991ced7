"""A Kafka-protocol broker inside this process: librdkafka's mock cluster, for replays, demos and tests.

It is no storage: it retains about 5 MB of each partition, and nothing after the process.
"""

from __future__ import annotations

import ctypes
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import confluent_kafka

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import Topic, full_name, partition_count

RETAINED_BYTES: Final = 5 * 2**20
"""What the mock cluster keeps of a partition, at least in the version that is pinned."""

_RD_KAFKA_PRODUCER: Final = 0
_ERROR_BYTES: Final = 512
_ANSWER_S: Final = 0.005  # 1 ms is usual
_CONNECT_S: Final = 1.0


class EmbeddedBroker:
    """A cluster of one broker on a free loopback port, from construction until `close`.

    Raises:
        TrainfareError: The broker cannot start.
    """

    def __init__(self, rebalance_delay_ms: int = 0) -> None:
        self._library = _librdkafka()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        config = self._library.rd_kafka_conf_new()
        # The client that hosts the cluster has no broker to connect to, and would report that on stderr.
        self._library.rd_kafka_conf_set(config, b"log_level", b"0", error, _ERROR_BYTES)
        self._handle = self._library.rd_kafka_new(_RD_KAFKA_PRODUCER, config, error, _ERROR_BYTES)
        if not self._handle:
            raise TrainfareError(f"the embedded broker cannot start: {error.value.decode()}")
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, 1)
        if not self._cluster:
            self._library.rd_kafka_destroy(self._handle)
            raise TrainfareError("the embedded broker cannot start: no loopback port could be opened")
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, rebalance_delay_ms)
        self.bootstrap_servers = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._closing = threading.Lock()
        self._closed = False

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; it is available immediately.

        Raises:
            TrainfareError: The cluster refused it.
        """
        code = self._answered(name.encode(), partitions)
        if code != 0:
            reason = self._library.rd_kafka_err2str(code).decode()
            raise TrainfareError(f"the embedded broker refused topic {name}: {reason}")

    def _answered(self, name: bytes, partitions: int) -> int:
        """Create the topic, and return the cluster's error code.

        Its thread often misses the request (librdkafka 2.16: for one of seven topics, nine times in ten) and sleeps for
        another second. A connection wakes it.
        """
        codes: list[int] = []

        def ask() -> None:
            codes.append(self._library.rd_kafka_mock_topic_create(self._cluster, name, partitions, 1))

        asking = threading.Thread(target=ask, name="mock-topic", daemon=True)
        asking.start()
        asking.join(_ANSWER_S)
        host, port = self.bootstrap_servers.rsplit(":", 1)
        while asking.is_alive():
            with suppress(OSError), socket.create_connection((host, int(port)), _CONNECT_S):
                pass
            asking.join(_ANSWER_S)
        return codes[0]

    def host(self, kafka: KafkaSettings, name: str) -> KafkaSettings:
        """Create all topics of these settings; return the settings of the only member of a group `name` here."""
        for topic in Topic:
            self.create_topic(full_name(topic, kafka.topic_prefix), partition_count(topic, kafka.partitions))
        return kafka.model_copy(
            update={
                "bootstrap_servers": self.bootstrap_servers,
                "group_id": name,
                # A static member sends no LeaveGroup request, which the mock cluster does not support from its last
                # member.
                "group_instance_id": name,
                "fetch_min_bytes": 1,
                "security_protocol": "PLAINTEXT",
                "sasl_mechanism": None,
            }
        )

    def close(self) -> None:
        """Stop the broker; connected clients lose their connection."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _librdkafka() -> ctypes.CDLL:
    """Load the library that confluent-kafka includes; its mock cluster has no Python binding."""
    package = Path(confluent_kafka.__file__).parent
    beside = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka*"))
    inside = sorted((package / ".dylibs").glob("librdkafka*.dylib"))
    for path in (*beside, *inside):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "rd_kafka_mock_cluster_new"):
            return _declare(library)
    raise TrainfareError(
        "the installed confluent-kafka brings no librdkafka with a mock cluster; "
        "install its wheel from PyPI (not a build against a system library)"
    )


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures = {
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (number, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2str": (text, [number]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_topic_create": (number, [pointer, text, number, number]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
