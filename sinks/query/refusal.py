"""Reasons for not answering a query, as exceptions inside the query process.

They must not contain a path of the store: `session.failing` removes paths from the engine's messages.
"""


class RefusedQueryError(Exception):
    """The statement may do more than read, or is larger than allowed."""


class FailedQueryError(Exception):
    """ClickHouse could not run it, or it exceeded a limit."""


class QueriesOffError(Exception):
    """No query can run; the message says what has to change."""
