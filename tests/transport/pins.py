"""The private names of Faust, mode, aiokafka and asyncio that streams/transport leans on, and whether they still stand.

Looked for in what is installed when the tests run, not when a worker starts: versions are pinned.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

# module -> dotted names that are overridden, called or set although they are private (or as good as).
CLASS_NAMES: Final = {
    "faust.app.base": (
        "App._new_transport",
        "App._create_directories",
        "App.on_first_start",
        "App.on_partitions_revoked",
        "App.on_partitions_assigned",
        "App.on_rebalance_complete",
        "App.on_before_shutdown",
    ),
    "faust.assignor.partition_assignor": (
        "PartitionAssignor._perform_assignment",
        "PartitionAssignor._metadata",
        "PartitionAssignor._url",
        "PartitionAssignor._decompress",
        "PartitionAssignor.on_assignment",
        "PartitionAssignor.external_topic_distribution",
    ),
    "faust.tables.manager": ("TableManager.on_start", "TableManager._update_channels"),
    "faust.transport.consumer": (
        "Consumer._wait_next_records",
        "Consumer._get_active_partitions",
        "Consumer.perform_seek",
        "Consumer.verify_all_partitions_active",
        "Consumer.on_buffer_full",
        "Consumer.on_buffer_drop",
        "ThreadDelegateConsumer._getmany",
        "QueueServiceThread.call_thread",
    ),
    "faust.transport.drivers.aiokafka": (
        "Consumer._new_consumer_thread",
        "Consumer._to_message",
        "Consumer.seek_to_committed",
        "Consumer.seek_wait",
        "Transport.Consumer",
        "Transport.Producer",
        "Producer._new_producer",
        "AIOKafkaConsumerThread._create_worker_consumer",
        "AIOKafkaConsumerThread._ensure_consumer",
        "AIOKafkaConsumerThread._fetch_records",
        "AIOKafkaConsumerThread._seek_wait",
        "AIOKafkaConsumerThread.on_partitions_assigned",
        "AIOKafkaConsumerThread.on_partitions_revoked",
    ),
    "aiokafka.conn": (
        "AIOKafkaProtocol",
        "AIOKafkaConnection._create_reader_task",
        "AIOKafkaConnection._handle_frame",
        "create_conn",
        "io.BytesIO",
    ),
    "aiokafka.client": (
        "AIOKafkaClient._get_conn",
        "AIOKafkaClient.bootstrap",
        "AIOKafkaClient.send",
        "AIOKafkaClient.force_metadata_update",
        "create_conn",
    ),
    "aiokafka.cluster": ("ClusterMetadata.update_metadata", "ClusterMetadata.partitions_for_topic"),
    "aiokafka.codec": (
        "cramjam.lz4.decompress_into",
        "cramjam.snappy.decompress_raw_len",
        "_detect_xerial_stream",
    ),
    "aiokafka.consumer.group_coordinator": (
        "GroupCoordinator._do_heartbeat",
        "GroupCoordinator._send_req",
        "GroupCoordinator.request_rejoin",
        "GroupCoordinator._do_rejoin_group",
        "GroupCoordinator._perform_assignment",
        "GroupCoordinator._maybe_leave_group",
        "GroupCoordinator.reset_generation",
    ),
    "aiokafka.consumer.fetcher": (
        "Fetcher._proc_fetch_request",
        "Fetcher._select_read_replica",
        "MemoryRecords",
        "PartitionRecords",
        "READ_COMMITTED",
    ),
    "aiokafka.record.control_record": ("ABORT_MARKER", "ControlRecord.parse"),
    "aiokafka.record.default_records": ("DefaultRecordBatch",),
    "aiokafka.record.util": ("calc_crc32c",),
    "aiokafka.consumer.subscription_state": (
        "Assignment.state_value",
        "Assignment.tps",
        "TopicPartitionState.has_valid_position",
        "TopicPartitionState.position",
    ),
}

# module -> attributes that exist on instances only, looked for in the source.
INSTANCE_NAMES: Final = {
    "asyncio.streams": ("self._buffer = bytearray()", "self._eof = False"),
    "aiokafka.conn": (
        "protocol = AIOKafkaProtocol(self._closed_fut, reader, loop=loop)",
        "self._reader, self._writer, self._protocol = reader, writer, protocol",
        "self._read_task = self._create_reader_task()",
        "resp = await reader.readexactly(size)",
        "resp = io.BytesIO(resp)",
    ),
    "aiokafka.protocol.types": ("value = data.read(length)",),
    "aiokafka.consumer.consumer": (
        "self._isolation_level =",
        "self._fetch_max_wait_ms =",
        "self._fetch_min_bytes =",
        "self._fetch_max_bytes =",
        "self._subscription =",
        "await self._client.bootstrap()",
        "self._fetcher =",
        "fetcher_timeout=self._consumer_timeout",
        "self._coordinator =",
        "self._value_deserializer =",
        "value_deserializer=self._value_deserializer",
        "fetch_min_bytes=self._fetch_min_bytes",
        "fetch_max_bytes=self._fetch_max_bytes",
        "fetch_max_wait_ms=self._fetch_max_wait_ms",
        "isolation_level=self._isolation_level",
    ),
    "aiokafka.client": (
        "cluster_metadata.update_metadata(metadata)",
        "self.cluster.update_metadata(metadata)",
        "resp = await self.send(node_id, request)",
    ),
    "aiokafka.cluster": (
        "self._partitions = _new_partitions",
        "error_code, topic, is_internal, partitions = topic_data",
        "for p_error, partition, leader, replicas, isr, *_ in partitions:",
        "_new_brokers.get(metadata.controller_id)",
    ),
    "aiokafka.consumer.group_coordinator": (
        "group_assignment = await self._coordinator._perform_assignment(response)",
        "raise Errors.KafkaError(repr(e)) from e",
        "resp = await self._client.send(",
        "if response.leader_id == response.member_id:",
        "self.generation =",
        "self._do_heartbeat()",
        "self._send_req(",
        "self.request_rejoin()",
    ),
    "aiokafka.consumer.subscription_state": ("self.highwater =", "self.lso =", "self.timestamp ="),
    "aiokafka.consumer.fetcher": (
        "response = await self._client.send(node_id, request)",
        "for partition, error_code, highwater, *part_data in partitions:",
        "tp_state.highwater = highwater",
        "tp_state.lso = lso",
        "tp_state.timestamp = now_ms",
        "records = MemoryRecords(part_data[-1])",
        "partition_records = PartitionRecords(",
        "position != self._partition_records.next_fetch_offset",
        "state.consumed_to(self._partition_records.next_fetch_offset)",
        "self._proc_fetch_request(assignment, node_id, request)",
        "self._fetch_waiters =",
        "waiter.result()",
    ),
    "aiokafka.protocol.fetch": (
        "self._min_bytes = min_bytes",
        "self._max_wait_ms = max_wait_time",
        "def topics(self) -> list[tuple[str, list[tuple[int, int, int]]]]:",
    ),
    "faust.transport.consumer": ("self._buffered_partitions =", "self._read_offset ="),
    "faust.transport.drivers.aiokafka": ("consumer_generation_id = generation",),
    "mode.threads": ('self.log.error("Thread keepalive is not responding...")',),
}


def moved() -> list[str]:
    """Say in words what is not as it was when the package was written."""
    return [*_class_names(), *_instance_names()]


def _class_names() -> list[str]:
    faults = []
    for module, names in CLASS_NAMES.items():
        for name in names:
            target: object = import_module(module)
            for part in name.split("."):
                if not hasattr(target, part):
                    faults.append(f"{module}.{name} is gone")
                    break
                target = getattr(target, part)
    return faults


def _instance_names() -> list[str]:
    faults = []
    for module, fragments in INSTANCE_NAMES.items():
        path = import_module(module).__file__
        source = "" if path is None else Path(path).read_text(encoding="utf-8")
        faults += [
            f"{module} no longer says `{fragment}`" for fragment in fragments if fragment not in source
        ]
    return faults
