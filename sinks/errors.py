"""The errors of sinks, classified by what the caller does next."""


class SinkError(Exception):
    """A sink failed; the message contains what, where and what to do."""


class SinkBusy(SinkError):  # noqa: N818 - named after the condition
    """The same request may succeed later: retain it, wait, retry."""

    def __init__(self, message: str, retry_after_ms: int = 1000) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class StoreUnreachable(SinkBusy):
    """Nobody answers at the store's address."""


class StoreFull(SinkBusy):
    """The store's disk is full; once there is room, the same request succeeds."""


class LogFull(SinkBusy):
    """The disk of the log is full: nothing was written; once there is room, the same request succeeds."""


class StoreInUse(SinkError):  # noqa: N818 - named after the condition
    """Another process has the data directory open."""


class EngineMissing(SinkError):  # noqa: N818 - named after the condition
    """This installation has no embedded ClickHouse; the message says how to install it."""


class StoreMismatch(SinkError):  # noqa: N818 - named after the condition
    """The store belongs to another log, or was written by another version of the meter."""


class QueryRefused(SinkError):  # noqa: N818 - named after the condition
    """A user's SQL does more than read this store's tables."""


class QueryFailed(SinkError):  # noqa: N818 - named after the condition
    """ClickHouse could not run the SQL: a wrong name, type or syntax."""


class QueryTimedOut(QueryFailed):
    """The SQL ran longer than it may."""


def query_failed(said: str) -> QueryFailed:
    """The fault for what ClickHouse, or the process of a query, says of it."""
    is_late = any(code in said for code in ("TIMEOUT_EXCEEDED", "TOO_SLOW"))
    return QueryTimedOut(said) if is_late else QueryFailed(said)


class QueriesOff(SinkError):  # noqa: N818 - named after the condition
    """SQL of users is switched off; the message says what has to change."""
