"""Signed links of messages, by which an alert is acted on without a token of the worker.

A link is the right to acknowledge, silence or plan one alert until a fixed instant. It stands behind the `#` of an
address, which no browser sends to a server: whatever fetches links ahead of their reader (mail filters, chat previews)
does nothing by it. Form: base64url(payload) "." base64url(HMAC-SHA256(key, purpose + payload)), as RFC 4648 and 2104 have them.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import Any, Final, TypeVar

import msgspec

from schemas.durations import DAY_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.possible import CEILING_FIELDS, narrowest_silence
from streams.engine.rules.registry import PLANNED_QUIETS
from streams.notify.json_forms import usd

#: A link ends so long after the change that its message is about.
LASTS_MS: Final = 7 * DAY_MS
#: What one link may ask for at a time; a longer silence takes a token.
HOURS_MAX: Final = 24
TOKEN_MAX_BYTES: Final = 4_096
ACTS: Final = ("ack", "silence", "planned")
_PURPOSE: Final = b"trainfare act link 1\n"
#: No text that was signed for the one is one of the other.
_CONFIRMING: Final = b"trainfare confirm link 1\n"


class InvalidLinkError(Exception):
    """What was shown is no link of this worker, or one that has ended."""


class LinkEndedError(InvalidLinkError):
    """The link was one of this worker."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a link is about; field names are short because all of it stands in an address."""

    alert: str  # its id
    rule: str
    kind: str  # of its subject
    name: str
    match: dict[str, str]  # fields of a silence
    usd: str  # dollars per hour that a plan says, or that an acknowledged ceiling is lifted to
    from_ms: int  # when a plan begins
    ends_ms: int

    @property
    def acts(self) -> tuple[str, ...]:
        """What may be asked for."""
        # A silence of nothing but the rule would cover alerts of others, too: that takes a token.
        is_silenced = len(self.match) > 1
        is_possible = {"ack": True, "silence": is_silenced, "planned": is_plannable(self.kind, self.rule)}
        return tuple(act for act in ACTS if is_possible[act])

    def record(self, act: str, until_ms: int, comment: str) -> dict[str, Any]:
        """The control record of an act, as `POST /api/v1/controls` takes it."""
        said = {"comment": comment} if comment else {}
        if act == "silence":
            return {"kind": "silence", **self.match, "until_ms": until_ms, **said}
        if act == "planned":
            rate = {"usd_per_hour": self.usd, "from_ms": self.from_ms}
            return {"kind": "planned", "job_id": self.name, **rate, "until_ms": until_ms, **said}
        of = CEILING_FIELDS.get(self.rule)
        lifted = {} if of is None else {of: self.name, "usd_per_hour": self.usd}
        return {"kind": "ack", "alert_id": self.alert, "until_ms": until_ms, **lifted, **said}


class Confirmation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a link confirms: one request, as it was when the message was made, while it waits."""

    request: str  # its id
    digest: str  # of what is asked for and by whom
    what: str  # in words, cut
    by: str
    ends_ms: int
    identity: str = ""  # who confirms by it alone; '': whoever is signed in, or shows a token


_Payload = TypeVar("_Payload", Offer, Confirmation)


class ActLinks:
    """Signs and opens links with one key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode("utf-8", "surrogateescape")

    def token(self, offer: Offer) -> str:
        """The signed part of the links of an offer."""
        return self._signed(_PURPOSE, offer)

    def confirm_token(self, confirmation: Confirmation) -> str:
        """The signed part of the link that confirms a request."""
        return self._signed(_CONFIRMING, confirmation)

    def opened(self, token: str, now_ms: int) -> Offer:
        """What a link offers.

        Raises:
            InvalidLinkError: It is not signed with this key; `LinkEndedError`: it was, and has ended.
        """
        return self._opened(_PURPOSE, token, now_ms, Offer)

    def confirmed(self, token: str, now_ms: int) -> Confirmation:
        """What a link confirms.

        Raises:
            InvalidLinkError: As of `opened`.
        """
        return self._opened(_CONFIRMING, token, now_ms, Confirmation)

    def _signed(self, purpose: bytes, content: msgspec.Struct) -> str:
        payload = _text(msgspec.json.encode(content))
        return f"{payload}.{_text(self._mac(purpose, payload))}"

    def _opened(self, purpose: bytes, token: str, now_ms: int, of: type[_Payload]) -> _Payload:
        payload, _, mac = token.partition(".")
        try:
            is_ours = hmac.compare_digest(self._mac(purpose, payload), _bytes(mac))
            # Nothing of the payload is read before the signature is known to be right.
            found = msgspec.json.decode(_bytes(payload), type=of) if is_ours else None
        except (Error, ValueError, msgspec.MsgspecError):
            found = None
        if found is None:
            raise InvalidLinkError("this is no link of this worker, or its web.act_link_key has changed")
        if now_ms >= found.ends_ms:
            raise LinkEndedError("this link has ended: open the alert on the page, or in a newer message")
        return found

    def _mac(self, purpose: bytes, payload: str) -> bytes:
        return hmac.digest(self._key, purpose + payload.encode("utf-8", "surrogateescape"), "sha256")


def is_plannable(kind: str, rule: str) -> bool:
    """Whether a planned rate can quiet an alert about such a subject."""
    return kind == "job" and rule in PLANNED_QUIETS


def offer_of(alert: Alert) -> Offer:
    """What the links of an alert that fires are about."""
    return Offer(
        alert=alert.alert_id,
        rule=alert.rule,
        kind=alert.subject_kind,
        name=alert.subject_name,
        match=_silence_match(alert),
        usd=usd(_rate_nano(alert)),
        from_ms=max(0, alert.started_ms - alert.window_ms),
        ends_ms=alert.changed_ms + LASTS_MS,
    )


def _silence_match(alert: Alert) -> dict[str, str]:
    whose = {"owner": alert.owner, "team": alert.team, "project": alert.project}
    return narrowest_silence(alert.rule, alert.subject_kind, alert.subject_name, whose)


def _rate_nano(alert: Alert) -> int:
    """What the subject costs per hour by the alert; one of `traffic` has what traffic costs, and all else apart."""
    beside = alert.expected_nano_per_hour if alert.rule == "traffic" else 0
    return alert.usd_nano_per_hour + beside


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    data = text.encode("ascii")
    return urlsafe_b64decode(data + b"=" * (-len(data) % 4))
