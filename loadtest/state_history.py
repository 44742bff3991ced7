"""A fleet's samples, one message for each node and interval, as a fetch brings its bytes.

What differs from interval to interval is written over the bytes of the one before: to build each message anew takes far longer than to
read it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from schemas.durations import MINUTE_MS
from streams.engine.batch import LogBatch
from streams.engine.raw_records import RawRecords
from streams.engine.shard.shard import Shard

#: Digits are written over these; all messages of a shard are of one length.
_TIME = b"1000000000000"
_UTIL = b"0.123"
_POWER = b"456.5"
_RECORDS_PER_BATCH = 4_000


class IntervalSamples:
    """The samples of a shard's nodes, (job, node) each, by intervals of one length: minutes, unless another one is given."""

    def __init__(
        self, owners: Sequence[tuple[str, str]], gpus: Sequence[str], interval_ms: int = MINUTE_MS
    ) -> None:
        """ValueError: names of another length than the first one's."""
        values = [_message(job_id, node, gpus, interval_ms) for job_id, node in owners]
        size = len(values[0])
        if any(len(value) != size for value in values):
            raise ValueError("names of jobs and nodes must be of one length")
        self._data = np.frombuffer(b"".join(values), np.uint8).reshape(-1, size).copy()
        first = values[0]
        self._time_at = first.index(_TIME)
        self._util_at = [at + 2 for at in _places(first, _UTIL)]
        self._power_at = _places(first, _POWER)
        self._random = np.random.default_rng(1)

    def feed(self, shard: Shard, now_ms: int) -> None:
        """An interval that ends now."""
        for place, digit in enumerate(str(now_ms).encode()):
            self._data[:, self._time_at + place] = digit
        for places in (self._util_at, self._power_at):
            for at in places:
                digits = self._random.integers(48, 58, (len(self._data), 3), np.uint8)
                self._data[:, at : at + 3] = np.maximum(digits, 49) if places is self._power_at else digits
        count, size = self._data.shape
        for first in range(0, count, _RECORDS_PER_BATCH):
            part = self._data[first : first + _RECORDS_PER_BATCH]
            start = shard.position.next.get("gpu", 0)
            records = RawRecords(
                part.reshape(-1).copy(),
                np.arange(start, start + len(part)),
                np.full(len(part), now_ms),
                np.arange(len(part)) * size,
                np.full(len(part), size, np.int32),
                np.full(len(part), -1),
                lambda _data, _at: (),
            )
            if shard.fold(LogBatch("gpu", shard.number, start, start + len(part), records)) is not None:
                raise AssertionError("a hole")


def _message(job_id: str, node: str, gpus: Sequence[str], interval_ms: int) -> bytes:
    event = {
        "source": "load", "time_ms": int(_TIME), "interval_ms": interval_ms, "job_id": job_id, "node": node,
        "gpus": gpus, "util_ratio": [float(_UTIL)] * len(gpus), "power_w": [float(_POWER)] * len(gpus),
        "memory_used_mib": [70_000] * len(gpus), "gpu_type": "H100",
    }  # fmt: skip
    return json.dumps(event).encode()


def _places(value: bytes, what: bytes) -> list[int]:
    found = []
    at = value.find(what)
    while at >= 0:
        found.append(at)
        at = value.find(what, at + 1)
    return found
