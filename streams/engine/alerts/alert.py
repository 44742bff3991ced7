"""An alert as it is stored and sent: the values that every layer passes on, and the ids derived from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct

from streams.engine.rules.rule import DIGEST

Severity: TypeAlias = Literal["page", "ticket"]
Status: TypeAlias = Literal["firing", "resolved"]

FIRING: Final = "firing"
RESOLVED: Final = "resolved"
_ID_DIGITS: Final = 24
_RECIPIENT_DIGITS: Final = 8


class Alert(Struct, frozen=True, kw_only=True, gc=False):
    """The current row of one episode; money in nano-dollars, instants in ms since 1970."""

    alert_id: str
    rule: str
    severity: str
    status: str
    subject_kind: str
    subject_name: str
    owner: str
    team: str
    project: str
    started_ms: int
    resolved_ms: int | None  # None while it fires
    ratio: float  # 0: the rule judges no ratio
    usd_nano_per_hour: int
    expected_nano_per_hour: int
    cost_nano: int
    window_ms: int  # 0: the rule has no window
    summary: str
    evidence_sql: str
    held_ms: int  # the last instant at which the rule's condition held: the figures are of then
    changed_ms: int  # the instant of the last change of status, or of the end of a silence that withheld it
    firings: int  # how often it has fired, the first time included
    silenced: bool  # a silence covered it when the status changed: stored, not delivered
    budget_nano: int | None = None  # what may be spent in all; None: the rule is about no budget of dollars
    exhausted_in_ms: int | None = (
        None  # from the figures' instant until it is used up at that rate; None: never
    )
    shared_cause: str = (
        ""  # equal for alerts that one cause opened at one time; '': it is known to share none
    )
    opened_nano_per_hour: int = 0  # what its subject paid when the episode began
    ticket_ms: int | None = None  # when it became a ticket, or more, that began as less; None: it did not
    page_ms: int | None = None  # when it became a page that began as less; None: it did not
    #: When its rule opened for its subject, the last times, openings that nobody was notified of among them; empty: of a job's shard.
    openings: tuple[int, ...] = ()
    quiet_ms: int | None = None  # since when the rule does not hold, of one that flaps; kept when it is over
    #: Since when a job stood still when it opened, of an incident the first of its jobs; None: not known, or another rule.
    stood_ms: int | None = None
    margins: str = ""  # as `margins_text` has them, of the instant at which it opened; '': its judge is asked


class HeldRow(NamedTuple):
    """A row of an alert about a job that keeps firing, as of a tick, and what makes it while the job is as it was then."""

    job_id: str
    alert_id: str
    at_ms: int
    row: Callable[[], Alert]


#: Fields of an `owner` record that are addresses; each has a channel in `streams.notify.channels`.
AddressKind: TypeAlias = Literal["webhook", "slack", "email"]
ADDRESS_KINDS: Final[tuple[AddressKind, ...]] = get_args(AddressKind)


class Address(NamedTuple):
    """Where an owner's alerts are sent."""

    kind: AddressKind
    url: str


def is_change(alert: Alert) -> bool:
    """Whether the row is a change of status or the end of a silence, which is sent, rather than an update of figures."""
    return alert.status == RESOLVED or (alert.held_ms <= alert.changed_ms and alert.quiet_ms is None)


def is_withheld(alert: Alert) -> bool:
    """Whether nobody is notified of it: a silence covers it, or it is about too few dollars."""
    return alert.silenced or alert.severity == DIGEST


def last_ms(alert: Alert) -> int:
    """The tick of the row."""
    return max(alert.held_ms, alert.changed_ms)


def alert_id(rule: str, subject_kind: str, subject_name: str, started_ms: int) -> str:
    """Return the id of the episode of a rule and subject that began at `started_ms`."""
    return "al_" + _digest(f"{rule}|{subject_kind}|{subject_name}|{started_ms}")


def webhook_id(alert_id: str, status: str, changed_ms: int, recipient: str = "") -> str:
    """The id of the message about a status change: the same in every attempt, in every process.

    `recipient`: to whom it is sent besides the alert's owner, who has an id that begins with the owner's.
    """
    of_change = "msg_" + _digest(f"{alert_id}|{status}|{changed_ms}")
    return f"{of_change}_{_digest(recipient)[:_RECIPIENT_DIGITS]}" if recipient else of_change


def message_id(alert: Alert) -> str:
    """The id of the message about the row's status."""
    return webhook_id(alert.alert_id, alert.status, alert.changed_ms)


def receipt_id(message_type: str, subject_kind: str, subject_name: str, owner: str, ended_ms: int) -> str:
    """The id of a receipt or digest; `owner` is empty where the subject has one that may change."""
    # As JSON, since every name may contain what would divide them.
    return "rc_" + _digest(json.dumps([message_type, subject_kind, subject_name, owner, ended_ms]))


def _digest(text: str) -> str:
    # A job id may contain a lone surrogate (valid in JSON), which strict UTF-8 would refuse.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]
