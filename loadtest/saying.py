"""Progress of a measurement, seen at once also where the output is piped."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Write a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
