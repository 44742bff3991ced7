"""Runs the broker in a thread of its own, and writes how to reach it into a file for this user alone."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from pydantic import SecretStr

from sinks.private_files import write_private
from streams.broker.connection import MECHANISM, USER, WORKER, Connection, Reception
from streams.broker.group import ConsumerGroup
from streams.broker.handler import RequestHandler
from streams.clock import Clock
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.segmented_log.directory import LogDirectory
from streams.segmented_log.errors import LogError
from streams.segmented_log.frames import Place
from streams.segmented_log.log import LogOptions
from streams.threads import Threads
from streams.topics import REFERENCE_TOPICS, SHARD_TOPICS, Topic, partition_count
from streams.transport.admin import DEAD_LETTER_TOPIC

logger = logging.getLogger(__name__)

ACCESS_FILE: Final = "client.env"
_HOST: Final = "127.0.0.1"
_PASSWORD_BYTES: Final = 32
_DROP_EVERY_S: Final = 60.0
_STOP_S: Final = 5.0


class LocalBroker:
    """A broker on a loopback port, from construction until `close`.

    Args:
        data: The data directory; the log is in its folder `log`.
        kafka: Names and partitions of the topics.
        options: How long events are kept.
        clock: For append times.

    Raises:
        LogError: The log cannot be opened.
        SinkError: Its directory is not this user's.
        TrainfareError: No port can be opened.
    """

    def __init__(self, data: Path, kafka: KafkaSettings, options: LogOptions, clock: Clock) -> None:
        self._kafka = kafka
        self._passwords = {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in (USER, WORKER)}
        self._connections: set[asyncio.Task[None]] = set()
        self._drop_threads = Threads("log-retention")
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self.log = LogDirectory(
            data,
            kafka.partitions,
            {str(topic) for topic in REFERENCE_TOPICS},
            options,
            clock,
            self._on_append,
        )
        try:
            self.group = ConsumerGroup(self.log.path)
            self._handler = RequestHandler(
                self.log, self.group, _partitions(kafka), kafka.topic_prefix, lambda: (_HOST, self._port)
            )
            self._reception = Reception(self._handler.of, self._passwords, clock.monotonic_ms)
            self._server = self._loop.run_until_complete(self._listening())
            self._port = self._server.sockets[0].getsockname()[1]
            write_private(self.log.path / ACCESS_FILE, _env(self.settings(), data))
        except BaseException:
            self.log.close()
            self._loop.close()
            raise
        self._dropping = self._loop.create_task(self._drop())
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()

    def settings(self) -> KafkaSettings:
        """The settings of a client, which are in `client.env`, too."""
        return self._settings_of(USER)

    def worker_settings(self) -> KafkaSettings:
        """The settings of the worker in this process: clients cannot take the places of its connections."""
        return self._settings_of(WORKER)

    def _settings_of(self, user: str) -> KafkaSettings:
        return self._kafka.model_copy(
            update={
                "bootstrap_servers": f"{_HOST}:{self._port}",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": MECHANISM,
                "sasl_username": user,
                "sasl_password": SecretStr(self._passwords[user]),
                "ssl_ca_location": None,
                "group_instance_id": None,
            }
        )

    def needed(self, place: Place) -> int | float:
        """The first offset of a partition that the store lacks; dead letters are in the store before they are here."""
        return (self.group.committed(place) or 0) if place[0] in SHARD_TOPICS else math.inf

    def close(self) -> None:
        """Append what waits, and end."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result(_STOP_S)
        self.log.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.group.save()
        (self.log.path / ACCESS_FILE).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_append(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._handler.appended)

    # -- in the event loop ---------------------------------------------------------------------------------

    async def _listening(self) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._connected, _HOST, 0)
        except OSError as fault:
            raise TrainfareError(f"no port of {_HOST} can be opened: {fault.strerror}") from fault

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(Connection(reader, writer, self._reception).serve())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _drop(self) -> None:
        """Say who made room for others, and drop old segments of which everything is in the store's snapshots, as commits follow those."""
        logged = 0
        while True:
            await asyncio.sleep(_DROP_EVERY_S)
            evicted = self._reception.slots.evicted
            if evicted > logged:
                logger.warning(
                    "connections to the local log made room for others",
                    extra={"count": evicted - logged, "runbook": "docs/backup.md#log-without-kafka"},
                )
                logged = evicted
            try:
                await self._drop_threads.run(self.log.drop, self.needed)
            except LogError as fault:
                logger.warning(
                    "old segments cannot be dropped",
                    extra={"reason": str(fault), "runbook": "docs/backup.md#log-without-kafka"},
                )

    async def _closed(self) -> None:
        self._server.close()
        self._dropping.cancel()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(self._dropping, *self._connections, return_exceptions=True)


def _partitions(kafka: KafkaSettings) -> Mapping[str, int]:
    found = {str(topic): partition_count(topic, kafka.partitions) for topic in Topic}
    return {**found, DEAD_LETTER_TOPIC: 1}


def _env(kafka: KafkaSettings, data: Path) -> bytes:
    """The settings of commands that read or write the log, or ask the store beside it, as lines for a shell."""
    password = "" if kafka.sasl_password is None else kafka.sasl_password.get_secret_value()
    values = {
        "BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "SECURITY_PROTOCOL": kafka.security_protocol,
        "SASL_MECHANISM": kafka.sasl_mechanism,
        "SASL_USERNAME": kafka.sasl_username,
        "SASL_PASSWORD": password,
        "PARTITIONS": kafka.partitions,
        "TOPIC_PREFIX": kafka.topic_prefix,
    }
    lines = [f"export TRAINFARE_KAFKA_{name}='{value}'\n" for name, value in values.items()]
    lines.append(f"export TRAINFARE_CLICKHOUSE_DATA_DIR={shlex.quote(str(data.absolute()))}\n")
    return "".join(lines).encode()
