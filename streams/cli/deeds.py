"""Puts on record what commands did beside the log: prices, backfills and repairs stand in the audit trail with who ran them."""

from __future__ import annotations

import socket
import sys

from schemas.escaping import visible
from schemas.validate_deeds import deed_record
from streams.cli.this_user import user_name
from streams.clock import SystemClock
from streams.config.settings import Settings
from streams.errors import TrainfareError
from streams.topics import Topic


def put_on_record(settings: Settings, act: str, name: str, what: str, count: int, *, own_log: bool) -> None:
    """Publish who did something; that it fails is a note, as it is done.

    Args:
        settings: Where Kafka is.
        act: One of `schemas.validate_deeds.ACTS`.
        name: What tells it from others of its act.
        what: About what it was, in words.
        count: Of how many records or rows.
        own_log: The log is that of a data directory, which no worker has open now.
    """
    from streams.transport.producer import LogProducer  # loads Kafka clients

    if own_log:
        return _say("the log of the directory is open to its worker alone")
    now_ms = SystemClock().now_ms()
    record = deed_record(act, name, _who(), visible(what), count, now_ms)
    try:
        with LogProducer(settings.kafka) as producer:
            producer.send(Topic.CONTROLS, record.key, record.value)
    except TrainfareError as fault:
        _say(visible(str(fault)))


def _who() -> str:
    """The user of this machine, as it says: nothing proves it."""
    return f"{user_name()} at {socket.gethostname()}"


def _say(why: str) -> None:
    sys.stderr.write(f"note: this is not in the audit trail: {why}\n")
