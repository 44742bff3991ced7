"""POST /api/v1/query: one read-only statement, answered as JSON, as an Arrow stream or as MessagePack."""

from __future__ import annotations

import asyncio
import os
from typing import Final

import msgspec
from aiohttp import web

from sinks.query import arrow, msgpack
from sinks.query.limits import TEXT_MAX_BYTES
from sinks.query.process import Answered
from sinks.query.wire import Form, Parameter
from streams.web.errors import ApiError
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.received_body import received_body
from streams.web.request_body import decoded

_JSON_TYPE: Final = "application/json"
#: The form of an answer, by what the header `Accept` names: the first one that it has.
_TYPES: Final[dict[Form, str]] = {
    "msgpack": msgpack.MEDIA_TYPE,
    "arrow": arrow.MEDIA_TYPE,
    "json": _JSON_TYPE,
}
#: Time limit of sending a result, whatever its size.
SEND_WITHIN_S: Final = 60.0
_PIECE_BYTES: Final = 2**18
#: What was read from tables for the answer, where the store says so.
ROWS_READ: Final = "X-Rows-Read"
BYTES_READ: Final = "X-Bytes-Read"
#: Limit of the whole body: JSON may encode a character as six, and there are parameters.
_BODY_MAX_BYTES: Final = 2**18


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    sql: str
    parameters: dict[str, Parameter] = {}


async def query(request: web.Request, service: QueryService, client: Client) -> web.StreamResponse:
    """Answer one query; it is cancelled when the client leaves.

    Raises:
        ApiError: The request is invalid, or the query failed.
    """
    if request.content_type != _JSON_TYPE:
        # A page of another site could send the other types without a preflight request.
        raise ApiError(415, "send application/json")
    loop = asyncio.get_running_loop()
    async with received_body(
        request, _BODY_MAX_BYTES, service.bodies, client.token, lambda: int(loop.time() * 1_000)
    ) as received:
        body = _parsed(received.data)
    accepted = request.headers.get("Accept", "")
    form: Form = next((form for form, name in _TYPES.items() if name in accepted), "json")
    async with service.answered(body.sql, body.parameters, form, client) as answer:
        response = web.StreamResponse(headers={"Content-Type": _TYPES[form]})
        response.content_length = answer.size_bytes
        for name, value in ((ROWS_READ, answer.rows_read), (BYTES_READ, answer.bytes_read)):
            if value is not None:
                response.headers[name] = str(value)
        await response.prepare(request)
        try:
            async with asyncio.timeout(SEND_WITHIN_S):
                await _send(answer, response)
        except TimeoutError:
            # Other queries wait for the slot that a slow reader occupies.
            response.force_close()
            if request.transport is not None:
                request.transport.abort()
    return response


async def _send(answer: Answered, response: web.StreamResponse) -> None:
    for offset in range(0, answer.size_bytes, _PIECE_BYTES):
        await response.write(os.pread(answer.descriptor, _PIECE_BYTES, offset))
        await asyncio.sleep(0)  # a fast reader must not block the others
    await response.write_eof()


def _parsed(data: bytes) -> _Body:
    try:
        body = decoded(data, _Body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise ApiError(400, f'expected {{"sql": "...", "parameters": {{...}}}}: {fault}') from fault
    if len(body.sql.encode()) > TEXT_MAX_BYTES:
        raise ApiError(413, f"the query is larger than {TEXT_MAX_BYTES} bytes", "query_too_large")
    return body
