"""The errors of the API and their common JSON form.

An unexpected fault shows only its request id.
"""

from __future__ import annotations

from aiohttp import web

from sinks.errors import QueriesOff, QueryFailed, QueryRefused, QueryTimedOut, SinkBusy, SinkError
from sinks.query.syntax import syntax_fault
from streams.web.encode import to_json

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "gone",
    413: "too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    503: "unavailable",
}


class ApiError(Exception):
    """A response other than 200, in words."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        retry_after_s: int | None = None,
        field: str | None = None,
        place: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or _CODES.get(status, "error")
        self.message = message
        #: The field of the body that is wrong.
        self.field = field
        #: Line and column of the SQL that is wrong, from 1.
        self.place = place
        #: How long the response is delayed.
        self.delay_s = 0.0
        #: Who was refused, where that is known before the request has a caller.
        self.refused: object = None
        self.retry_after_s = 1 if retry_after_s is None and status == 503 else retry_after_s


def answer(error: ApiError) -> web.Response:
    """The error as a JSON response."""
    said: dict[str, object] = {"code": error.code, "message": error.message}
    if error.field is not None:
        said["field"] = error.field
    if error.place is not None:
        said |= {"line": error.place[0], "column": error.place[1]}
    body = to_json({"error": said})
    response = web.Response(body=body, status=error.status, content_type="application/json")
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="trainfare"'
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


def of_http(error: web.HTTPException, path: str, max_bytes: int) -> ApiError:
    """Convert an error of aiohttp."""
    messages = {
        404: f"there is nothing at {path}",
        405: f"{path} takes another method: {error.headers.get('Allow', 'none')}",
        413: f"the body is larger than {max_bytes} bytes",
    }
    return ApiError(error.status, messages.get(error.status, error.reason))


def of_query(error: SinkError, sql: str) -> ApiError:
    """Convert a fault of a statement: where it does not parse, the place instead of all that could stand there."""
    fault = syntax_fault(sql, str(error)) if isinstance(error, QueryFailed) else None
    if fault is None:
        return of_store(error)
    return ApiError(400, fault.words(sql), "query_failed", place=(fault.line, fault.column))


def of_store(error: SinkError) -> ApiError:
    """Convert a fault of the store: a client's mistake, or a temporary failure."""
    message = " ".join(str(error).split())
    if isinstance(error, QueryRefused):
        return ApiError(400, message, "query_refused")
    if isinstance(error, QueryTimedOut):
        return ApiError(504, message, "query_timed_out")
    if isinstance(error, QueryFailed):
        return ApiError(400, message, "query_failed")
    if isinstance(error, QueriesOff):
        return ApiError(503, message, "queries_off")
    return ApiError(503, message, "store_busy" if isinstance(error, SinkBusy) else "store_failed")
