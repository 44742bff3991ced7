"""Records as a fetch brings them: bytes and where each stands in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streams.engine.batch import LogRecord
from streams.engine.raw_records import RawRecords


def raw(records: Sequence[LogRecord]) -> RawRecords:
    """The same records, the values one after the other, with something between them."""
    data = bytearray(b"\x00")
    value_at = []
    for record in records:
        value_at.append(len(data))
        data += (record.value or b"") + b"\xff"
    headers = [record.headers for record in records]
    return RawRecords(
        np.frombuffer(data, np.uint8),
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        np.array(value_at, np.int64),
        np.array([-1 if record.value is None else len(record.value) for record in records], np.int32),
        np.array([i if named else -1 for i, named in enumerate(headers)], np.int64),
        lambda _, at: headers[at],
    )
