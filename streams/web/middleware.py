"""Wraps every request: request id, log line, authorisation, errors as JSON, security headers.

It must not log a query string, a header or a body, any of which may contain a secret, nor serve a path without a scope.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from sinks.errors import SinkError
from streams.web.accept_filter import HEADER_MAX_BYTES
from streams.web.errors import ApiError, answer, of_http, of_store
from streams.web.http_protocol import hold_back, trust
from streams.web.packed_body import check_encoding
from streams.web.places import Client
from streams.web.refused_requests import RefusedRequests
from streams.web.scopes import Caller, Scope
from streams.web.security import HEADERS, Needed, RequestGuard, is_data

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BODY_MAX_BYTES: Final = 2**20
CALLER: Final = web.RequestKey("caller", Caller)
#: The teams whose rows alone the caller sees here; None: all.
TEAMS: Final = web.RequestKey("teams", tuple)
_REQUEST_ID: Final = web.RequestKey("request_id", str)
_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PATH_SHOWN: Final = 200
#: Of what is refused there nothing would have been changed but what is metered.
_NO_CHANGE: Final = frozenset(
    {"/api/v1/query", "/api/v1/session", "/api/v1/events", "/v1/traces", "/v1/metrics"}
)
_READY_PATH: Final = "/readyz"


def client_of(request: web.Request) -> Client:
    """Who asks, for what counts by client."""
    caller = request[CALLER]
    return Client(caller.token, caller.address, request.get(TEAMS))


def middleware(
    guard: RequestGuard,
    scopes: Mapping[str, Needed],
    now_ms: Callable[[], int],
    refusals: RefusedRequests | None = None,
) -> Middleware:
    """The server's only middleware; `scopes` has every path, None where it is open to all; `refusals` gets what was refused."""
    was_ready = False

    @web.middleware
    async def framed(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal was_ready
        given = request.headers.get("X-Request-Id", "")
        request_id = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(8)
        request[_REQUEST_ID] = request_id
        began_ms = now_ms()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = await _answered(request, handler, guard, scopes, refusals)
            path = request.path[:_PATH_SHOWN]
            # Whoever starts a worker polls until it is ready: until then its answer is no fault.
            was_ready = was_ready or (path == _READY_PATH and response.status == 200)
            is_fault = response.status >= 500 and (was_ready or path != _READY_PATH)
            logger.log(
                logging.WARNING if is_fault else logging.DEBUG,
                "request",
                extra={
                    "method": request.method,
                    "path": path,
                    "http_status": response.status,
                    "duration_ms": now_ms() - began_ms,
                    **({"runbook": "docs/trouble.md#failed-request"} if is_fault else {}),
                },
            )
        return response

    return framed


async def _answered(
    request: web.Request,
    handler: Handler,
    guard: RequestGuard,
    scopes: Mapping[str, Needed],
    refusals: RefusedRequests | None,
) -> web.StreamResponse:
    try:
        if sum(len(name) + len(value) for name, value in request.raw_headers) > HEADER_MAX_BYTES:
            raise ApiError(431, f"the headers are larger than {HEADER_MAX_BYTES} bytes", "too_long")
        guard.check_host(request.headers.get("Host", ""))
        guard.check_origin(request.path, request.headers)
        resource = request.match_info.route.resource
        if resource is not None:  # otherwise the handler reports 404
            if resource.canonical not in scopes:
                raise ApiError(403, f"{request.path[:_PATH_SHOWN]} has no scope")
            scope = scopes[resource.canonical]
            request[CALLER] = guard.caller(
                scope,
                request.remote or "",
                request.headers,
                lambda: request.cookies,
                resource.canonical,
            )
            _bind(request, scope)
            if request[CALLER].token:
                trust(request)
        check_encoding("" if resource is None else resource.canonical, request.headers)
        return await handler(request)
    except ApiError as fault:
        response, delay_s = answer(fault), fault.delay_s
        _note(request, fault, refusals)
    except SinkError as fault:
        return answer(of_store(fault))
    except web.HTTPRedirection:
        raise
    except web.HTTPException as fault:
        return answer(of_http(fault, request.path[:_PATH_SHOWN], BODY_MAX_BYTES))
    except ConnectionError:
        raise  # the client has left
    except Exception:
        logger.exception(
            "request failed",
            extra={
                "method": request.method,
                "path": request.path[:_PATH_SHOWN],
                "runbook": "docs/trouble.md#internal-fault",
            },
        )
        message = f"an internal fault; the worker's log has it under request {request[_REQUEST_ID]}"
        return answer(ApiError(500, message, "internal"))
    if delay_s:
        # Not while the fault is there: its traceback holds the body.
        await hold_back(request, delay_s)
    return response


def _note(request: web.Request, fault: ApiError, refusals: RefusedRequests | None) -> None:
    """Put on record that somebody in particular was refused what changes something; reading and events change nothing."""
    if refusals is None or fault.status != 403 or request.method != "POST":
        return
    caller, resource = fault.refused or request.get(CALLER), request.match_info.route.resource
    if isinstance(caller, Caller) and resource is not None and resource.canonical not in _NO_CHANGE:
        refusals.note(caller, request.method, resource.canonical, fault.code)


def _bind(request: web.Request, scope: Needed) -> None:
    """Keep the teams whose rows alone the caller sees here."""
    teams = request[CALLER].teams_for(scope if isinstance(scope, Scope) else Scope.READ)
    if teams is not None:
        request[TEAMS] = teams


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers that every response has."""
    response.headers.update(HEADERS)
    if is_data(request.path) or "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-store"
    if _REQUEST_ID in request:
        response.headers["X-Request-Id"] = request[_REQUEST_ID]


def sees_all(request: web.Request) -> bool:
    """Whether the caller reads rows of every team here."""
    return Scope.READ in request[CALLER].scopes and request.get(TEAMS) is None
