"""The faults of the log on disk, classified by what the caller does next."""

from __future__ import annotations

from streams.errors import TrainfareError


class LogError(TrainfareError):
    """The log cannot be used; the message says what, where and what to do."""


class LogCorruptError(LogError):
    """Bytes that were acknowledged are not what was written."""


class LogInUseError(LogError):
    """Another process writes to the log."""


class LogFullError(LogError):
    """The disk has no room: nothing of the request is in the log; the same request succeeds once there is room."""


class BadBatchError(LogError):
    """What a client sent is no record batch that the log takes."""


class OffsetOutOfRangeError(LogError):
    """The log does not hold the offset: it was dropped, or is beyond the end."""
