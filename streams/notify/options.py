"""The limits and intervals of deliveries, resolved from the settings once.

It must not read the environment, and its repr shows no secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_MS = 24 * 3_600_000


@dataclass(frozen=True)
class NotifierOptions:
    """What may be sent, how often it is tried, how much may wait."""

    # Without a secret nothing is sent.
    webhook_secret: str | None = field(default=None, repr=False)
    # For the alerts of owners without an address that can be sent to.
    default_webhook: str | None = field(default=None, repr=False)
    allow_hosts: str = ""
    max_attempts: int = 8
    timeout_ms: int = 15_000
    # Attempts under way at once, a socket each; a receiver that hangs may hold only a few of them.
    flying_at_most: int = 64
    flying_per_receiver: int = 4
    # Messages in memory, about 3 KiB each. What does not fit is read from the tables again when there is room.
    waiting_at_most: int = 10_000
    # Rows of `deliveries` that wait for the store; no new attempt begins beyond.
    rows_at_most: int = 10_000
    # After a restart no message is sent for an alert that resolved longer ago than this; None: no limit. Firing alerts are always sent.
    resolved_horizon_ms: int | None = DAY_MS
    # How long a look at what was already delivered may hold up a message; then it goes without.
    look_up_timeout_ms: int = 2_000
    # How long a stop waits for attempts under way and for the store.
    stop_timeout_ms: int = 5_000
