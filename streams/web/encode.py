"""Encodes JSON of the API like results of SQL, so that a value looks the same everywhere."""

from typing import Final

from aiohttp import web

from sinks.query.values import EXACT_MAX, ms, plain, to_json

__all__ = ["EXACT_MAX", "NOT_KEPT", "json_answer", "ms", "plain", "to_json"]

#: Headers of an answer that no cache may keep.
NOT_KEPT: Final = {"Cache-Control": "no-store"}


def json_answer(value: object, status: int = 200) -> web.Response:
    """A response with the value as JSON."""
    return web.Response(body=to_json(value), status=status, content_type="application/json")
