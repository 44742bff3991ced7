"""Maps the driver's exceptions to ours, in one place."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Final

from clickhouse_connect.driver.exceptions import (
    ClickHouseError,
    DatabaseError,
    Error,
    OperationalError,
)
from pyarrow.lib import ArrowException
from urllib3.exceptions import HTTPError

from sinks.errors import SinkBusy, SinkError, StoreFull, StoreUnreachable, query_failed

# ClickHouse error codes after which the same request may succeed.
BUSY_CODES: Final = frozenset(
    {
        159,  # TIMEOUT_EXCEEDED
        160,  # TOO_SLOW (it estimates that the time limit will be exceeded)
        202,  # TOO_MANY_SIMULTANEOUS_QUERIES
        203,  # NO_FREE_CONNECTION
        209,  # SOCKET_TIMEOUT
        210,  # NETWORK_ERROR
        225,  # NO_ZOOKEEPER
        236,  # ABORTED (the server shuts down)
        241,  # MEMORY_LIMIT_EXCEEDED
        242,  # TABLE_IS_READ_ONLY
        252,  # TOO_MANY_PARTS
        285,  # TOO_FEW_LIVE_REPLICAS
        319,  # UNKNOWN_STATUS_OF_INSERT
        394,  # QUERY_WAS_CANCELLED (the server shuts down)
        439,  # CANNOT_SCHEDULE_TASK
        999,  # an error of ClickHouse's coordination service
    }
)
_NOT_ENOUGH_SPACE: Final = 243
# A write that finds the disk full after its space was reserved has the error code of whatever was being written.
_NO_SPACE: Final = "No space left on device"
_ACCESS_CODES: Final = frozenset({192, 193, 194, 497, 516})
# Without a ClickHouse error code, the response came from a proxy or gateway.
_BUSY_STATUSES: Final = tuple(f"HTTP status {status}" for status in (429, 500, 502, 503, 504))


@contextmanager
def mapped(where: str) -> Iterator[None]:
    """Run driver calls and map their exceptions; `where` names the store in messages.

    Raises:
        SinkError: Every failure of the driver, classified.
    """
    try:
        yield
    except ClickHouseError as error:
        raise as_ours(error, where) from error
    except (HTTPError, ArrowException) as error:
        # The driver raises other exceptions for an unreadable response: a truncated one, or another server's.
        text = " ".join(str(error).split())[:200]
        raise SinkBusy(f"{where} gave an answer that cannot be read: {text}") from error


def as_ours(error: ClickHouseError, where: str) -> SinkError:
    """Our exception for a driver's exception."""
    code = error.code if isinstance(error, Error) else None
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if code == _NOT_ENOUGH_SPACE or _NO_SPACE in str(error):
        return StoreFull(f"{where} has no space left on its disk: {text}; free some, and it goes on")
    if code in BUSY_CODES:
        return SinkBusy(f"{where} cannot do this now: {text}")
    if code in _ACCESS_CODES:
        return SinkError(f"{where} refused access: {text}; check the user, the password and their rights")
    if code is not None:
        return query_failed(f"{where} answered: {text}")
    if any(status in text for status in _BUSY_STATUSES):
        return SinkBusy(f"{where} cannot do this now: {text}")
    if isinstance(error, OperationalError):
        return StoreUnreachable(
            f"{where} does not answer: {_cause(error)}; check that it runs and that the address is right"
        )
    if isinstance(error, DatabaseError):
        return SinkError(f"{where} failed: {text}")
    return SinkError(f"the driver of {where} failed: {text}")


def without_frames(fault: SinkError) -> SinkError:
    """The fault with its cause as if neither had been raised; the originals lose their tracebacks."""
    each: BaseException | None = fault
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__
    again = copy(fault)
    again.__cause__ = fault.__cause__
    return again


def _cause(error: BaseException) -> str:
    """The innermost reason, which an operator can act on."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__
