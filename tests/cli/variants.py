"""The command `trainfare` as it is, but for one thing each; only for a process of its own, which forgets it at its end."""

from __future__ import annotations

import os
from collections.abc import Sequence

from streams.cli import audit, reading
from streams.cli.main import main as command
from streams.collect.kafka.topics import KafkaTopics
from streams.selfcheck.audit import live
from streams.transport import admin, controls_log


def impatient(words: Sequence[str]) -> None:
    """It waits a moment, not seconds, for whoever does not answer, and before it looks again at what is wrong."""
    admin.connect.__defaults__ = (0.5,)
    controls_log._ANSWER_S = 0.5  # type: ignore[misc]  # constant, but for this process
    reading._PATIENCE_S = 0.1
    audit._AGAIN_S = 0.1  # type: ignore[misc]  # constant, but for this process
    command(words)


def impatient_relay(words: Sequence[str]) -> None:
    """The Kafka that it reads from has two seconds to answer, not ten."""
    KafkaTopics.__init__.__defaults__ = (2.0,)
    command(words)


def watchful(words: Sequence[str]) -> None:
    """A worker's audits come every second."""
    live.EVERY_S = 1.0  # type: ignore[misc]  # constant, but for this process
    command(words)


def open_to_all(words: Sequence[str]) -> None:
    """Its user's umask opens everything to everybody."""
    os.umask(0)
    command(words)
