"""The command `trainfare` as it is, but that it waits a moment, not seconds, for whoever does not answer."""

from __future__ import annotations

from collections.abc import Sequence

from streams.cli import reading
from streams.cli.main import main as command
from streams.transport import admin


def main(words: Sequence[str]) -> None:
    """Run the command; only in a process of its own, which forgets this at its end."""
    admin.connect.__defaults__ = (0.5,)
    reading._PATIENCE_S = 0.1
    command(words)
