"""What requests name: their parameters, their jobs and alerts; each fault in words."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web

from schemas.durations import DATETIME_END_MS
from streams.web.errors import ApiError

T = TypeVar("T")
#: What the times of ClickHouse hold.


def known(job_id: str, found: T | None) -> T:
    """What was found of a job.

    Raises:
        ApiError: Nothing was.
    """
    if found is None:
        raise ApiError(404, f"job {job_id!r}: not in this store")
    return found


def known_alert(alert_id: str, found: T | None) -> T:
    """What was found of an alert.

    Raises:
        ApiError: Nothing was.
    """
    if found is None:
        raise ApiError(404, f"alert {alert_id!r}: not in this store; GET /api/v1/alerts lists them")
    return found


def named_job(request: web.Request, names: set[str]) -> tuple[str, dict[str, str]]:
    """The job of the path, else of the parameter `id`, and the other parameters.

    Raises:
        ApiError: None is named, or a parameter is unknown or given twice.
    """
    job_id = request.match_info.get("job_id")
    asked = parameters(request, names if job_id is not None else names | {"id"})
    if job_id is None:
        job_id = asked.pop("id", "")
    if not job_id:
        raise ApiError(400, "id: name a job")
    return job_id, asked


def parameters(request: web.Request, names: set[str]) -> dict[str, str]:
    """The query parameters.

    Raises:
        ApiError: One is unknown or given twice.
    """
    for name in request.query:
        if name not in names:
            raise ApiError(400, f"parameter {name!r} is unknown; expected {', '.join(sorted(names))}")
        if len(request.query.getall(name)) > 1:
            raise ApiError(400, f"parameter {name!r} is given twice")
    return dict(request.query)


def instant(name: str, given: str | None) -> int | None:
    """A parameter in ms since 1970; None: it is not given.

    Raises:
        ApiError: It is no instant.
    """
    if given is None:
        return None
    if not given.isascii() or not given.isdecimal() or int(given[:16]) >= DATETIME_END_MS:
        raise ApiError(400, f"{name}: got {given!r}, expected milliseconds since 1970")
    return int(given)
