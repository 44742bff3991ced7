"""Progress of a measurement, seen at once also where the output is piped, and its figures as a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def say(line: str) -> None:
    """Write a line."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def keep_figures(out: Path | None, figures: Any) -> None:
    """Write the figures where `--out` says, if it says so."""
    if out is not None:
        out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
