"""Resolves an alert that is judged outside the kernel: about the meter, across jobs, or about a budget."""

from __future__ import annotations

import msgspec

from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.rules.formatting import sentence, span


def resolved(last: Alert, at_ms: int) -> Alert:
    """The row that ends an alert at `at_ms`; `last` is its last row."""
    length = span(max(at_ms - last.started_ms, 0))
    return msgspec.structs.replace(
        last,
        status=RESOLVED,
        resolved_ms=at_ms,
        changed_ms=at_ms,
        # What to do, at the end of the sentence, is over.
        summary=sentence(
            lambda _: f"over after {length}: {last.summary.rpartition('; ')[0] or last.summary}"
        ),
        exhausted_in_ms=None,
    )
