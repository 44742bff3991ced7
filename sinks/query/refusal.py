"""Why a query was not answered, as exceptions inside the query process.

It must not carry a path of the store: `session.failing` takes them out of what the engine says.
"""


class RefusedQueryError(Exception):
    """The statement may do more than read, or is larger than allowed."""


class FailedQueryError(Exception):
    """ClickHouse could not run it, or it exceeded a limit."""


class QueriesOffError(Exception):
    """No query can be run at all; the message says what has to change."""
