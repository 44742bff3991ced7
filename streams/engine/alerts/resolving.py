"""Resolves an alert that is judged outside the kernel: about the meter, across jobs, or about a budget."""

from __future__ import annotations

from typing import Final

import msgspec

from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.rules.formatting import sentence, span

#: What the sentence of an alert says that opened too often to be over at once.
FLAPS: Final = "stays open until quiet for 1 h"


def resolved(last: Alert, at_ms: int) -> Alert:
    """The row that ends an alert at `at_ms`; `last` is its last row."""
    length = span(max(at_ms - last.started_ms, 0))
    said = last.summary.removesuffix(f"; {FLAPS}")
    return msgspec.structs.replace(
        last,
        status=RESOLVED,
        resolved_ms=at_ms,
        changed_ms=at_ms,
        # What to do, at the end of the sentence, is over.
        summary=sentence(lambda _: f"over after {length}: {said.rpartition('; ')[0] or said}"),
        exhausted_in_ms=None,
    )
