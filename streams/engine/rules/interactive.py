"""The label of jobs in which somebody works: their GPUs wait for people."""

from __future__ import annotations

from typing import Final

LABEL: Final = "interactive"
_NOT: Final = ("", "false", "no", "0")


def is_interactive(labels: dict[str, str]) -> bool:
    """Whether these labels say that somebody works in the job."""
    return labels.get(LABEL, "").lower() not in _NOT
