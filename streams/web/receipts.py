"""The receipt of a job as an answer: what `trainfare receipts show JOB` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from schemas.messages.receipt import JobEnded
from streams.notify.notice import Notice, notice_of, notice_text
from streams.web.encode import json_answer
from streams.web.errors import ApiError
from streams.worker.receipts.receipt import without_others


def of_own_team(row: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt for whoever is bound to teams: without what was found from jobs that may be of other teams."""
    sent = msgspec.json.decode(str(row["message"]), type=JobEnded)
    own = msgspec.structs.replace(sent, data=without_others(sent.data))
    return {**row, "message": msgspec.json.encode(own).decode()}


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
