"""Everything that can go wrong with a sink, split by what the caller does next.

It must not import a database driver: foreign exceptions are mapped at one door, `clickhouse/faults.py`.
"""


class SinkError(Exception):
    """A sink did not do what it was asked; the message says what, where and what to do."""


class SinkBusy(SinkError):  # noqa: N818 - named by the fact
    """The sink may take the very same request later: keep it, wait, try again."""

    def __init__(self, message: str, retry_after_ms: int = 1000) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class StoreUnreachable(SinkBusy):
    """Nobody answers at the store's address."""


class StoreFull(SinkBusy):
    """The disk of the store is full; once there is room, the very same request is taken."""


class StoreInUse(SinkError):  # noqa: N818 - named by the fact
    """Another process has the data directory open."""


class StoreMismatch(SinkError):  # noqa: N818 - named by the fact
    """The store belongs to another log, or was written by another version of the meter."""


class QueryRefused(SinkError):  # noqa: N818 - named by the fact
    """A user's SQL does more than read this store's tables."""


class QueryFailed(SinkError):  # noqa: N818 - named by the fact
    """ClickHouse could not run the SQL: a wrong name, type or syntax."""


class QueriesOff(SinkError):  # noqa: N818 - named by the fact
    """No SQL of users is run at all; the message says what has to change."""
