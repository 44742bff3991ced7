"""Real Apache Kafka brokers for tests: KRaft processes on free loopback ports, from jars that Maven fetches once."""

from __future__ import annotations

import atexit
import base64
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from functools import lru_cache
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

VERSION = "4.1.1"
START_TIMEOUT_S = 60.0
_POM = Path(__file__).parent / "pom.xml"
_COMPLETE = ".complete"  # written beside the jars once all are there
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},BEHIND://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},BEHIND://127.0.0.1:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
"""


def why_not() -> str | None:
    """Say what is missing for a broker, or None."""
    if shutil.which("java") is None:
        return "no `java` on the PATH for a real Kafka broker"
    if _libs() is None and shutil.which("mvn") is None:
        return "no `mvn` on the PATH to fetch Kafka's jars, and TRAINFARE_KAFKA_LIBS names none"
    return None


class KafkaBroker:
    """One broker with a log directory of its own; it can be killed and started again on the same port and log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._port, controller, self.port_behind_proxy = _free_ports(3)
        self.bootstrap_servers = f"127.0.0.1:{self._port}"
        #: Where a `Proxy(port_behind_proxy, proxy_socket)` listens: all addresses that its clients get lead through it.
        self.proxy_socket = socket.create_server(("127.0.0.1", 0))
        self.proxied_servers = f"127.0.0.1:{self.proxy_socket.getsockname()[1]}"
        self.properties = directory / "server.properties"
        self.properties.write_text(
            _PROPERTIES.format(
                port=self._port,
                controller=controller,
                behind=self.port_behind_proxy,
                proxy=self.proxy_socket.getsockname()[1],
                logs=directory / "logs",
            )
        )
        self._classpath = f"{fetch_libs()}/*"
        self._process: subprocess.Popen[bytes] | None = None
        logs = directory / "logs"
        logs.mkdir()
        # All that Kafka's own tool would write of what is needed, without two starts of a JVM.
        (logs / "meta.properties").write_text(f"version=1\ncluster.id={_uuid()}\nnode.id=1\n")

    def start(self) -> None:
        """Start the process and wait until it answers."""
        log = (self.directory / "broker.log").open("ab")
        self._process = subprocess.Popen(
            [
                "java",
                "-Xmx400m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                self._classpath,
                "kafka.Kafka",
                str(self.properties),
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,  # a Ctrl-C for pytest must not take the broker away first
        )
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._process.poll() is not None:
                raise RuntimeError(f"Kafka ended at start, see {self.directory / 'broker.log'}")
            try:
                client.list_topics(timeout=1)
            except KafkaException:
                continue
            return
        self.kill()
        raise RuntimeError(f"Kafka did not answer within {START_TIMEOUT_S:g} s, see {self.directory}")

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def signal(self, number: signal.Signals) -> None:
        """Send the running process a signal."""
        if self._process is None:
            raise RuntimeError("the broker was not started")
        self._process.send_signal(number)

    def stop(self) -> None:
        """Stop the process in order; kill it when it takes too long."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


def fetch_libs() -> Path:
    """Return the directory with Kafka's jars, fetched by Maven if they are not there yet."""
    present = _libs()
    if present is not None:
        return present
    target = _cache()
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        # Several processes of one run come here at once, and Maven's fail where another one writes.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / _COMPLETE).exists():
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={target}"]
            subprocess.run(
                ["mvn", "-q", "-B", "-f", str(_POM), *goal], timeout=600, check=True, capture_output=True
            )
            (target / _COMPLETE).touch()
    return target


def _libs() -> Path | None:
    named = os.environ.get("TRAINFARE_KAFKA_LIBS")
    if named:
        return Path(named)
    return _cache() if (_cache() / _COMPLETE).exists() else None


def _cache() -> Path:
    return Path.home() / ".cache" / "trainfare" / f"kafka-{VERSION}"


def _uuid() -> str:
    """An id as Kafka spells them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


@lru_cache(maxsize=1)
def shared_broker() -> KafkaBroker:
    """The one broker of this test process, stopped at its end; skips or fails the test when there is none."""
    reason = why_not()
    if reason is not None and os.environ.get("TRAINFARE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"TRAINFARE_REQUIRE_KAFKA=1, but {reason}", pytrace=False)
    if reason is not None:
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="trainfare-kafka-"))
    broker = KafkaBroker(directory)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(broker.kill)
    broker.start()
    return broker
