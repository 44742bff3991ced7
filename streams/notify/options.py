"""The limits and intervals of deliveries, resolved from the settings once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from schemas.durations import DAY_MS
from streams.notify.groups import DEFAULT_LABELS
from streams.notify.links import NO_LINKS, Links
from streams.notify.mailer import SmtpOptions


@dataclass(frozen=True)
class NotifierOptions:
    """What may be sent, how often it is attempted, and how much may wait."""

    # Of owners without a secret of their own; without either nothing is sent.
    webhook_secret: str | None = field(default=None, repr=False)
    owner_secrets_dir: Path | None = None
    # For alerts of owners without a usable address.
    default_webhook: str | None = field(default=None, repr=False)
    allow_hosts: str = ""
    # Addresses of all peers, without a slash at the end; the operator's, so they may be private and plain http.
    alertmanager_urls: tuple[str, ...] = ()
    alertmanager_token: str | None = field(default=None, repr=False)
    # How often what fires is sent again.
    alertmanager_resend_ms: int = 60_000
    # Without it addresses of e-mail are `unsupported`.
    smtp: SmtpOptions | None = None
    # How long an alert waits for others with its cause: from three on one message tells of all.
    incident_wait_ms: int = 10_000
    # Of messages to people (Slack, e-mail): the labels of those that share one, and how long they wait.
    group_by: tuple[str, ...] = DEFAULT_LABELS
    group_wait_ms: int = 10_000
    group_interval_ms: int = 300_000
    repeat_interval_ms: int = 14_400_000
    links: Links = field(default=NO_LINKS, repr=False)
    max_attempts: int = 8
    timeout_ms: int = 15_000
    # Concurrent attempts, one socket each; a receiver that hangs may occupy only a few of them.
    in_flight_at_most: int = 64
    in_flight_per_receiver: int = 4
    # Attempts that may start in a second, all receivers together; None: any number. Each takes 0.7 ms of the event loop's
    # CPU, and metering goes on meanwhile: 10,000 alerts at one tick are sent within 40 s.
    starts_per_s: int | None = 300
    # Messages in memory, about 3 KiB each. The others are read from the tables when there is room.
    waiting_at_most: int = 10_000
    # Rows of `deliveries` waiting for the store; at this limit no attempt starts.
    rows_at_most: int = 10_000
    # After a restart, alerts that resolved longer ago than this are not sent; None: no limit. Firing alerts always are.
    resolved_horizon_ms: int | None = DAY_MS
    # How long reading the delivery history may delay a message; then it is sent without.
    look_up_timeout_ms: int = 2_000
    # How long a stop waits for attempts in flight and for the store.
    stop_timeout_ms: int = 5_000
