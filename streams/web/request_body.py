"""Reads the body of a small request."""

from __future__ import annotations

from aiohttp import web

from streams.web.errors import ApiError


async def read_body(request: web.Request, limit_bytes: int) -> bytes:
    """Return the body, of which no more than the limit is read.

    Raises:
        ApiError: It is larger.
    """
    read = bytearray()
    if (request.content_length or 0) <= limit_bytes:
        async for piece in request.content.iter_any():
            read += piece
            if len(read) > limit_bytes:
                break
        else:
            return bytes(read)
    raise ApiError(413, f"the body is larger than {limit_bytes} bytes")
