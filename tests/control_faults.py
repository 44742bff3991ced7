"""What the meter says of a record of `controls`, as it stands on the wire."""

from __future__ import annotations

from schemas.decode import decode
from schemas.durations import NEVER_MS
from schemas.redaction import CONTROLS
from streams.engine.alerts.ineffective import faults_of


def control_faults(value: bytes | None) -> list[str]:
    """A line for each part that has no effect; `value`: the record's JSON, None of one that removes a control."""
    return faults_of(decode(CONTROLS, value, (), NEVER_MS))
