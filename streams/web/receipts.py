"""The receipt of a job as an answer: what `trainfare receipts show JOB` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from streams.notify.notice import Notice, notice_of, notice_text
from streams.web.encode import json_answer
from streams.web.errors import ApiError


def receipt_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a job's page says of its receipt."""
    notice = _notice(row)
    return {
        "receipt_id": row["receipt_id"],
        "ended_ms": notice.resolved_ms,
        "owner": row["owner"],
        "summary": notice.summary,
        "outcomes": row["outcomes"],
    }


def receipt_answer(job_id: str, row: Mapping[str, Any] | None, form: str) -> web.Response:
    """The receipt as the message that was sent, or as text.

    Raises:
        ApiError: The job has not ended.
    """
    if row is None:
        raise ApiError(404, f"job {job_id!r} has not ended: its receipt is made when it does")
    if form == "json":
        sent = msgspec.json.decode(str(row["message"]))
        return json_answer(sent)
    return web.Response(text=notice_text(_notice(row), str(row["outcomes"])), content_type="text/plain")


def _notice(row: Mapping[str, Any]) -> Notice:
    return notice_of(str(row["message"]).encode(), str(row["owner"]))
