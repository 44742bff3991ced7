"""Reads what a .wandb file says of its run: who it is, what its configuration says to the meter, newest metrics, the end.

Only configuration under `trainfare` is kept: the rest may hold secrets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from schemas.protobuf import fields_of, signed
from streams.collect.mlflow.records import RunMetric, TrackedRun
from streams.collect.wandb.log_file import RunFileError

# Numbers of fields in wandb_internal.proto.
_HISTORY: Final = 2
_CONFIG: Final = 5
_STATS: Final = 7
_RUN: Final = 17
_EXIT: Final = 18
_KEY, _NESTED_KEY, _JSON = 1, 2, 16
_STATS_TIME: Final = 2
_STATS_ITEM: Final = 3
_OF_GPUS: Final = b"gpu."  # "gpu.0.gpu", "gpu.process.0.memory"

_PREFIX: Final = "trainfare"
_FIRST_MS: Final = 946_684_800_000  # 2000
_LAST_MS: Final = 10_413_792_000_000  # 2300
_METRICS_AT_MOST: Final = 10_000


class _Reader:
    """Collects what the records of one file say."""

    def __init__(self) -> None:
        self.run_id = self.entity = self.project = self.name = ""
        self.start_ms = 0
        self.tags: dict[str, str] = {}
        self.metrics: dict[str, RunMetric] = {}
        self.newest_ms = 0
        self.stats_ms = 0
        self.uses_gpus = False
        self.exit: tuple[int, int] | None = None  # code, seconds that it ran

    def read(self, record: bytes) -> None:
        for number, value in fields_of(record):
            if not isinstance(value, bytes):
                continue
            if number == _RUN:
                self._read_run(value)
            elif number == _CONFIG:
                self._read_config(value)
            elif number == _STATS:
                self.uses_gpus = self.uses_gpus or _names_gpus(value)
                self.stats_ms = max(self.stats_ms, _stats_ms(value))
            elif number == _HISTORY:
                self._read_history(value)
            elif number == _EXIT:
                found = {key: signed(each) for key, each in fields_of(value) if isinstance(each, int)}
                self.exit = found.get(1, 0), found.get(2, 0)

    def _read_run(self, message: bytes) -> None:
        for number, value in fields_of(message):
            if not isinstance(value, bytes):
                continue
            if number == 1:
                self.run_id = _text(value)
            elif number == 2:
                self.entity = _text(value)
            elif number == 3:
                self.project = _text(value)
            elif number == 4:
                self._read_config(value)
            elif number == 8:
                self.name = _text(value)
            elif number == 17:
                self.start_ms = _timestamp_ms(value)

    def _read_config(self, message: bytes) -> None:
        for name, value in _items(message):
            if name.startswith(f"{_PREFIX}."):
                self._add_tag(name, value)
            elif name == _PREFIX and isinstance(value, dict):
                for key, each in value.items():
                    self._add_tag(f"{_PREFIX}.{key}", each)

    def _add_tag(self, name: str, value: object) -> None:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            self.tags[name] = str(value)

    def _read_history(self, message: bytes) -> None:
        found = {
            name: value
            for name, value in _items(message)
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        if not found.keys() >= {"_step", "_timestamp"}:
            return  # W&B's own figures
        at_ms, step = _ms(found["_timestamp"]), _whole(found["_step"])
        self.newest_ms = max(self.newest_ms, at_ms)
        for name, value in found.items():
            if not name.startswith("_") and (name in self.metrics or len(self.metrics) < _METRICS_AT_MOST):
                self.metrics[name] = RunMetric(float(value), at_ms, step)


def run_of(records: Iterable[bytes]) -> TrackedRun | None:
    """The run of a file's records; None while the file does not say which run it is.

    W&B writes no time of the end: it is the start and the seconds that the run took, or the time of its newest metric.

    Raises:
        RunFileError: A record is none of W&B's, or the run has no start.
    """
    reader = _Reader()
    try:
        for record in records:
            reader.read(record)
    except (ValueError, OverflowError) as fault:
        raise RunFileError(str(fault)) from None
    if not reader.run_id:
        return None
    if not _FIRST_MS <= reader.start_ms < _LAST_MS or len(reader.run_id.encode()) > 100:
        raise RunFileError("the run has no start, or an id of more than 100 bytes")
    status, end_ms = "RUNNING", 0
    if reader.exit is not None:
        code, seconds = reader.exit
        status = "FAILED" if code else "FINISHED"
        end_ms = max(reader.start_ms + max(seconds, 0) * 1000, reader.newest_ms)
    if reader.entity:
        reader.tags.setdefault("trainfare.team", reader.entity)
    return TrackedRun(
        run_id=reader.run_id,
        experiment_id=reader.project,
        name=reader.name,
        status=status,
        start_ms=reader.start_ms,
        end_ms=end_ms,
        is_deleted=False,
        tags=reader.tags,
        metrics=reader.metrics,
        uses_gpus=reader.uses_gpus,
        logged_ms=max(reader.newest_ms, reader.stats_ms),
    )


def _timestamp_ms(message: bytes) -> int:
    time = {key: signed(each) for key, each in fields_of(message) if isinstance(each, int)}
    return time.get(1, 0) * 1000 + time.get(2, 0) // 10**6


def _stats_ms(stats: bytes) -> int:
    """When W&B's own figures of the machine were taken; 0 where they do not say it."""
    times = (value for number, value in fields_of(stats) if number == _STATS_TIME)
    return max((_timestamp_ms(value) for value in times if isinstance(value, bytes)), default=0)


def _names_gpus(stats: bytes) -> bool:
    """Whether W&B's own figures of the machine are of GPUs, too; not what they are."""
    return any(
        key.startswith(_OF_GPUS)
        for number, item in fields_of(stats)
        if number == _STATS_ITEM and isinstance(item, bytes)
        for field, key in fields_of(item)
        if field == _KEY and isinstance(key, bytes)
    )


def _items(message: bytes) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the items of a history or configuration; what is no JSON is not a value."""
    for number, item in fields_of(message):
        if number != 1 or not isinstance(item, bytes):
            continue
        key, nested, text = "", list[str](), b""
        for field, value in fields_of(item):
            if isinstance(value, bytes):
                if field == _KEY:
                    key = _text(value)
                elif field == _NESTED_KEY:
                    nested.append(_text(value))
                elif field == _JSON:
                    text = value
        try:
            yield key or ".".join(nested), msgspec.json.decode(text)
        except (ValueError, RecursionError):  # NaN and the like
            continue


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _ms(seconds: float) -> int:
    return round(seconds * 1000) if math.isfinite(seconds) and 0 < seconds < _LAST_MS / 1000 else 0


def _whole(step: float) -> int:
    return int(step) if math.isfinite(step) and abs(step) < 2**53 else 0
