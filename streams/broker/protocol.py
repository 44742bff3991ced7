"""The requests that the broker answers, one version of each, in aiokafka's own definitions."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any, Final, NamedTuple

from aiokafka.protocol.admin import (
    ApiVersionRequest_v0,
    DescribeConfigsRequest_v1,
    SaslAuthenticateRequest_v0,
    SaslHandShakeRequest_v1,
)
from aiokafka.protocol.api import RequestStruct
from aiokafka.protocol.commit import OffsetCommitRequest_v2, OffsetFetchRequest_v1
from aiokafka.protocol.coordination import FindCoordinatorRequest_v1
from aiokafka.protocol.fetch import FetchRequest_v10
from aiokafka.protocol.group import (
    HeartbeatRequest_v1,
    JoinGroupRequest_v2,
    LeaveGroupRequest_v1,
    SyncGroupRequest_v1,
)
from aiokafka.protocol.metadata import MetadataRequest_v5
from aiokafka.protocol.offset import OffsetRequest_v3
from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.protocol.transaction import InitProducerIdRequest_v0

API_VERSIONS: Final = ApiVersionRequest_v0.API_KEY
SASL_HANDSHAKE: Final = SaslHandShakeRequest_v1.API_KEY
SASL_AUTHENTICATE: Final = SaslAuthenticateRequest_v0.API_KEY
PRODUCE: Final = ProduceRequest_v7.API_KEY
FETCH: Final = FetchRequest_v10.API_KEY
LIST_OFFSETS: Final = OffsetRequest_v3.API_KEY
METADATA: Final = MetadataRequest_v5.API_KEY
OFFSET_COMMIT: Final = OffsetCommitRequest_v2.API_KEY
OFFSET_FETCH: Final = OffsetFetchRequest_v1.API_KEY
FIND_COORDINATOR: Final = FindCoordinatorRequest_v1.API_KEY
JOIN_GROUP: Final = JoinGroupRequest_v2.API_KEY
HEARTBEAT: Final = HeartbeatRequest_v1.API_KEY
LEAVE_GROUP: Final = LeaveGroupRequest_v1.API_KEY
SYNC_GROUP: Final = SyncGroupRequest_v1.API_KEY
INIT_PRODUCER_ID: Final = InitProducerIdRequest_v0.API_KEY
DESCRIBE_CONFIGS: Final = DescribeConfigsRequest_v1.API_KEY

REQUESTS: Final[dict[int, type[RequestStruct]]] = {
    request.API_KEY: request
    for request in (
        ApiVersionRequest_v0,
        SaslHandShakeRequest_v1,
        SaslAuthenticateRequest_v0,
        ProduceRequest_v7,
        FetchRequest_v10,
        OffsetRequest_v3,
        MetadataRequest_v5,
        OffsetCommitRequest_v2,
        OffsetFetchRequest_v1,
        FindCoordinatorRequest_v1,
        JoinGroupRequest_v2,
        HeartbeatRequest_v1,
        LeaveGroupRequest_v1,
        SyncGroupRequest_v1,
        InitProducerIdRequest_v0,
        DescribeConfigsRequest_v1,
    )
}
#: What may be asked for before the client has shown its password.
BEFORE_SASL: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})

# Error codes of the protocol.
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
UNSUPPORTED_SASL_MECHANISM: Final = 33
UNSUPPORTED_VERSION: Final = 35
KAFKA_STORAGE_ERROR: Final = 56
SASL_AUTHENTICATION_FAILED: Final = 58

_HEADER: Final = struct.Struct(">hhi")
_INT16: Final = struct.Struct(">h")


class WireError(Exception):
    """Bytes that are no request of ours; the connection is closed."""


class BrokerRequest(NamedTuple):
    """A request; `body` is None where its version is not supported."""

    api_key: int
    correlation_id: int
    body: Any


def received(data: bytes) -> BrokerRequest:
    """The request of one frame.

    Raises:
        WireError: It cannot be read, or is none of those that the broker answers.
    """
    try:
        api_key, version, correlation_id = _HEADER.unpack_from(data)
        request = REQUESTS[api_key]
        if api_key == API_VERSIONS:
            return BrokerRequest(api_key, correlation_id, None if version else request())
        if version != request.API_VERSION:
            raise WireError(f"request {api_key} has version {version}, expected {request.API_VERSION}")
        stream = BytesIO(data)
        stream.seek(_HEADER.size)
        (client_bytes,) = _INT16.unpack(stream.read(_INT16.size))
        stream.seek(max(client_bytes, 0), 1)
        return BrokerRequest(api_key, correlation_id, request.decode(stream))
    except (KeyError, ValueError, struct.error, TypeError) as fault:
        raise WireError(f"no request of ours: {fault}") from None


def framed(request: BrokerRequest, fields: tuple[Any, ...]) -> bytes:
    """The bytes of an answer; a throttle time, where the answer has one first, is added."""
    response = REQUESTS[request.api_key].RESPONSE_TYPE
    if response.SCHEMA.names[0] == "throttle_time_ms":
        fields = (0, *fields)
    body: bytes = struct.pack(">i", request.correlation_id) + response(*fields).encode()
    return struct.pack(">i", len(body)) + body


def supported() -> list[tuple[int, int, int]]:
    """(request, lowest version, highest version) of all."""
    return [(key, request.API_VERSION, request.API_VERSION) for key, request in sorted(REQUESTS.items())]
