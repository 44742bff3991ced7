"""Slack: a message to an incoming webhook of theirs, as blocks with a title, a sentence, figures, and buttons that are links.

Every text is plain text, and escaped besides; but for instants, which Slack shows in the reader's time zone.
Slack refuses a message with any block over its limits, so all are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from schemas.escaping import visible
from streams.engine.alerts.alert import Alert
from streams.engine.rules.formatting import instant
from streams.notify.channels.channel import Channel, ChannelTools, noted
from streams.notify.delivery import ChannelTraits, Delivery
from streams.notify.figures import figures, title
from streams.notify.links import Links
from streams.notify.notice import Figure
from streams.notify.webhooks.sender import SendResult

#: Limits of Slack's Block Kit, in characters.
HEADER_AT_MOST: Final = 150
TEXT_AT_MOST: Final = 3_000
FIELD_AT_MOST: Final = 2_000
FIELDS_AT_MOST: Final = 10
URL_AT_MOST: Final = 3_000
#: Of a group so many are shown; a message may have 50 blocks.
SHOWN_AT_MOST: Final = 12

_NAME_AT_MOST: Final = 300
_ESCAPES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class SlackChannel(Channel):
    """Sends to the incoming webhooks of Slack, unsigned: their addresses are the secret."""

    traits = ChannelTraits("slack", is_for_people=True)

    def __init__(self, tools: ChannelTools) -> None:
        super().__init__(tools)
        self._sender = tools.to_owners

    def render(self, delivery: Delivery) -> bytes:
        """The blocks as JSON."""
        return slack_body(self._current(delivery.alerts), self._links, noted(delivery))

    async def send(self, delivery: Delivery) -> SendResult:
        """Post once."""
        return await self._sender.post(delivery.to.url, self.render(delivery), {})


def slack_body(alerts: Sequence[Alert], links: Links, note: str = "") -> bytes:
    """The message about one alert, or about a group of them; `note` says why it comes again."""
    head = title(alerts)
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(head, HEADER_AT_MOST)}]
    if note:
        blocks.append({"type": "context", "elements": [_plain(note, _NAME_AT_MOST)]})
    for alert in alerts[:SHOWN_AT_MOST]:
        blocks += _blocks(alert, links)
    left = len(alerts) - SHOWN_AT_MOST
    if left > 0:
        more = ", ".join(alert.subject_name for alert in alerts[SHOWN_AT_MOST:])
        blocks.append({"type": "section", "text": _plain(f"and {left} more: {more}", TEXT_AT_MOST)})
    lines = [head, *(alert.summary for alert in alerts[:SHOWN_AT_MOST])]
    message = {
        # What a notification on a phone shows.
        "text": fitted("\n".join(visible(line) for line in lines), TEXT_AT_MOST),
        "blocks": blocks,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    return orjson.dumps(message)


def fitted(text: str, at_most: int) -> str:
    """Escape for Slack, and cut to so many characters; half an escape would show as garbage."""
    parts: list[str] = []
    left = at_most
    for letter in text:
        part = _ESCAPES.get(letter, letter)
        parts.append(part)
        left -= len(part)
        if left < 0:
            break
    if left >= 0:
        return "".join(parts)
    while left < 1:
        left += len(parts.pop())
    return "".join(parts) + "\u2026"


def _blocks(alert: Alert, links: Links) -> list[dict[str, Any]]:
    fields = [_field(figure) for figure in figures(alert)]
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": _plain(alert.summary, TEXT_AT_MOST), "fields": fields[:FIELDS_AT_MOST]}
    ]
    buttons = [
        {
            "type": "button",
            "action_id": name,
            "text": {"type": "plain_text", "text": label, "emoji": False},
            "url": url,
        }
        for name, label, url in links.shown(alert)
        if len(url) <= URL_AT_MOST
    ]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    return blocks


def _field(figure: Figure) -> dict[str, Any]:
    if figure.at_ms is not None:
        return _local_time(figure.label, figure.at_ms)
    text = f"{figure.label}\n{visible(figure.value)}"
    return _plain(text, min(FIELD_AT_MOST, _NAME_AT_MOST), lines=True)


def _local_time(label: str, at_ms: int) -> dict[str, Any]:
    """A field with an instant in the reader's time zone; nothing but a label of ours and numbers may be in it."""
    date = f"<!date^{at_ms // 1000}^{{date_short_pretty}} {{time}}|{instant(at_ms)}>"
    return {"type": "mrkdwn", "text": f"{label}\n{date}", "verbatim": True}


def _plain(text: str, at_most: int, *, lines: bool = False) -> dict[str, Any]:
    shown = fitted(visible(text, lines=lines), at_most)
    return {"type": "plain_text", "text": shown or "-", "emoji": False}
