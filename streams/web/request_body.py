"""Reads the body of a small request: one JSON object, whose texts are text."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from aiohttp import web

from streams.web.errors import ApiError

Made = TypeVar("Made")


async def json_body(request: web.Request, limit_bytes: int, form: type[Made], example: str) -> Made:
    """The body as `form`; `example`: one that would be taken.

    Raises:
        ApiError: It is not sent as JSON, is larger than the limit, or is none.
    """
    if request.content_type != "application/json":
        # A page of another site could send the other types without a preflight request.
        raise ApiError(415, "send application/json")
    data = await _read(request, limit_bytes)
    try:
        return decoded(data, form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise ApiError(400, f"expected one JSON object like {example}: {fault}") from fault


def decoded(data: bytes, form: type[Made]) -> Made:
    """A document of a client, all of it UTF-8: msgspec refuses halves of surrogate pairs.

    Raises:
        MsgspecError: It is no JSON, or of another form.
        ValueError: It is no UTF-8.
        RecursionError: It is nested too deeply.
    """
    data.decode()  # the decoder does not check all strings
    return msgspec.json.decode(data, type=form)


async def _read(request: web.Request, limit_bytes: int) -> bytes:
    """The body, of which no more than the limit is read."""
    read = bytearray()
    if (request.content_length or 0) <= limit_bytes:
        async for piece in request.content.iter_any():
            read += piece
            if len(read) > limit_bytes:
                break
        else:
            return bytes(read)
    raise ApiError(413, f"the body is larger than {limit_bytes} bytes")
