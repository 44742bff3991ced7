"""The message about what waits for a second person, with the link by which somebody confirms it.

It is in no table: what waits is in the log, and the link would be there for whoever may query.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from schemas.escaping import utf8_text, visible
from schemas.messages.request import RequestLinks, RequestWaiting, RequestWaitingData
from schemas.validate_requests import WaitingRequest
from streams.config.confirmers import Confirmer
from streams.engine.alerts.alert import receipt_id
from streams.engine.rules.formatting import instant, one_line
from streams.notify.act_links import Confirmation
from streams.notify.json_forms import rfc3339
from streams.notify.links import REQUEST_WAITING, Links
from streams.notify.notice import Figure, Notice, instant_figure, notice_fields

_WHAT_MAX_CHARS: Final = 1_000
_IN_LINK_MAX_CHARS: Final = 120


def request_notice(request: WaitingRequest, asked_ms: int, to: Confirmer, links: Links) -> Notice:
    """The notice of a request, for one of those who may confirm it; `asked_ms`: when it was asked for."""
    what = _cut(utf8_text(msgspec.json.encode(request.control).decode()), _WHAT_MAX_CHARS)
    kind = utf8_text(str(request.control.get("kind", "")))
    identity = receipt_id(
        REQUEST_WAITING, request.id, request.digest, f"{to.owner}/{to.team}", request.until_ms
    )
    summary = (
        f"{one_line(request.by)} asks for {one_line(kind)}, which has no effect until another person confirms it "
        f"by {instant(request.until_ms)}"
    )
    confirmation = Confirmation(
        request=request.id,
        digest=request.digest,
        what=_cut(visible(what), _IN_LINK_MAX_CHARS),
        by=_cut(visible(request.by), _IN_LINK_MAX_CHARS),
        ends_ms=request.until_ms,
        identity=to.identity,
    )
    confirm, runbook = links.of_request(confirmation)
    has_links = bool(confirm or runbook)
    found = RequestLinks(confirm=confirm or UNSET, runbook=runbook or UNSET)
    data = RequestWaitingData(
        receipt_id=identity,
        request_id=request.id,
        kind=kind,
        what=what,
        by=utf8_text(request.by),
        until_ms=request.until_ms,
        summary=visible(summary),
        command=f"trainfare approve {request.id}",
        links=found if has_links else UNSET,
    )
    message = RequestWaiting(type="request.waiting", timestamp=rfc3339(asked_ms), data=data)
    body = msgspec.json.encode(message)
    return Notice(
        **notice_fields(identity, REQUEST_WAITING, to.owner, "0", data.summary, asked_ms, body),
        subject_kind="request",
        subject_name=request.id,
        team=to.team,
        project="",
        started_ms=asked_ms,
        title=f"Confirm? {one_line(kind)}, asked for by {one_line(request.by)}",
        figures=(
            Figure("Asked by", request.by),
            Figure("What", what),
            instant_figure("Until", request.until_ms),
            Figure("In a shell", data.command),
        ),
        links=tuple((label, url) for label, url in (("Confirm", confirm), ("Who may", runbook)) if url),
    )


def _cut(text: str, at_most: int) -> str:
    return text if len(text) <= at_most else f"{text[: at_most - 1]}\u2026"
