"""E-mail, by the operator's SMTP server: plain text, and the same as simple HTML.

Names are escaped before they are put anywhere.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from schemas.escaping import visible
from streams.engine.alerts.alert import Alert
from streams.notify.channels.channel import Channel, ChannelTools, noted
from streams.notify.delivery import ChannelTraits, Delivery
from streams.notify.figures import figures, title
from streams.notify.links import Links
from streams.notify.mailer import Mailer, domain_of
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.sender import SendResult

SUBJECT_AT_MOST: Final = 200
#: Of a group so many are shown whole, and so many more by name.
SHOWN_AT_MOST: Final = 20
NAMED_AT_MOST: Final = 200
# Every byte of it is ASCII, so that any server takes it.
_POLICY: Final = SMTP.clone(cte_type="7bit")
UNSUPPORTED: Final = (
    "e-mail is not sent: alerts.smtp_host is not set; set it, or give the owner a webhook or slack address"
)


class EmailChannel(Channel):
    """Sends to the addresses of owners, as far as the settings allow their domains."""

    traits = ChannelTraits("email", is_for_people=True, server="smtp")

    def __init__(self, tools: ChannelTools) -> None:
        super().__init__(tools)
        smtp, timeout_ms = tools.options.smtp, tools.options.timeout_ms
        self._mailer = None if smtp is None else Mailer(smtp, timeout_ms=timeout_ms)

    @classmethod
    def is_configured(cls, options: NotifierOptions) -> bool:
        """Whether there is a server."""
        return options.smtp is not None

    @classmethod
    def unsupported(cls, options: NotifierOptions) -> str:
        """What is missing without a server."""
        return "" if cls.is_configured(options) else UNSUPPORTED

    @classmethod
    def name_of(cls, url: str) -> str:
        """The kind alone: the address is a person's."""
        return cls.traits.kind

    def render(self, delivery: Delivery) -> bytes:
        """Headers and body; every byte is ASCII."""
        assert self._mailer is not None  # without a server it is unsupported, and nothing is sent
        message = mail_message(
            self._current(delivery.alerts),
            self._links,
            sender=self._mailer.sender,
            to=delivery.to.url,
            message_id=delivery.webhook_id,
            now_ms=self._clock.now_ms(),
            note=noted(delivery),
        )
        return message.as_bytes()

    async def send(self, delivery: Delivery) -> SendResult:
        """Hand it to the server once, unless the address is refused."""
        assert self._mailer is not None
        refusal = self._mailer.refusal(delivery.to.url)
        if refusal:
            return SendResult("refused", 0, refusal)
        return await self._mailer.send(delivery.to.url, self.render(delivery))


def mail_message(
    alerts: Sequence[Alert],
    links: Links,
    *,
    sender: str,
    to: str,
    message_id: str,
    now_ms: int,
    note: str = "",
) -> EmailMessage:
    """The message about one alert, or about a group of them; `note` says why it comes again.

    Args:
        alerts: At least one.
        links: Where its links lead.
        sender: The address that it is from.
        to: The one address that it goes to; `domain_of` has accepted both.
        message_id: Without the domain; the same in each attempt, so that mail programs show it once.
        now_ms: The instant of the attempt, ms since 1970.
        note: One line.
    """
    domain = domain_of(sender)
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = to
    message["Subject"] = visible(title(alerts))[:SUBJECT_AT_MOST]
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ms // 1000, UTC))
    message["Message-ID"] = f"<{message_id}@{domain}>"
    # Mail programs show what is about one alert as one thread.
    message["References"] = f"<{alerts[0].alert_id}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(_text(alerts, links, note))
    message.add_alternative(_html(alerts, links, note), subtype="html")
    return message


def _text(alerts: Sequence[Alert], links: Links, note: str) -> str:
    lines = [visible(note), ""] if note else []
    for alert in alerts[:SHOWN_AT_MOST]:
        lines.append(visible(alert.summary))
        lines += [f"  {label}: {visible(value)}" for label, value, _ in figures(alert)]
        lines += [f"  {label}: {url}" for _, label, url in links.shown(alert)]
        lines += [f"  {alert.alert_id}", ""]
    return "\n".join([*lines, *_more(alerts)]) + "\n"


def _html(alerts: Sequence[Alert], links: Links, note: str) -> str:
    parts = ["<!doctype html><html><body style='font-family:sans-serif'>"]
    if note:
        parts.append(f"<p>{_shown(note)}</p>")
    for alert in alerts[:SHOWN_AT_MOST]:
        rows = "".join(
            f"<tr><td style='padding-right:1em'>{label}</td><td>{_shown(value)}</td></tr>"
            for label, value, _ in figures(alert)
        )
        anchors = " &middot; ".join(
            f"<a href='{html.escape(url)}'>{label}</a>" for _, label, url in links.shown(alert)
        )
        parts.append(
            f"<p><b>{_shown(alert.summary)}</b></p><table>{rows}</table><p>{anchors}</p>"
            f"<p style='color:#777'>{alert.alert_id}</p>"
        )
    parts += [f"<p>{_shown(line)}</p>" for line in _more(alerts)]
    return "\n".join([*parts, "</body></html>\n"])


def _more(alerts: Sequence[Alert]) -> list[str]:
    left = alerts[SHOWN_AT_MOST:]
    if not left:
        return []
    names = ", ".join(visible(alert.subject_name) for alert in left[:NAMED_AT_MOST])
    return [f"and {len(left)} more: {names}{', ...' if len(left) > NAMED_AT_MOST else ''}"]


def _shown(text: str) -> str:
    return html.escape(visible(text))
