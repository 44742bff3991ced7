"""What the log would show of captured records: the event and its fields."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import pytest

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


def fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of one record, but for its runbook."""
    standard = _STANDARD | {"runbook"}
    return {name: value for name, value in record.__dict__.items() if name not in standard}


def events(records: Iterable[logging.LogRecord]) -> list[tuple[str, dict[str, object]]]:
    """Each record as its event and its fields."""
    return [(record.getMessage(), fields(record)) for record in records]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """All that was logged, tracebacks and fields too, as one text."""
    return "\n".join(
        (caplog.text, *(f"{name}={value}" for r in caplog.records for name, value in fields(r).items()))
    )
