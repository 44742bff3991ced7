"""Reasons for not answering a query, as exceptions inside the query process."""


class RefusedQueryError(Exception):
    """The statement may do more than read, or is larger than allowed."""


class FailedQueryError(Exception):
    """ClickHouse could not run it, or it exceeded a limit."""


class QueriesOffError(Exception):
    """No query can run; the message says what has to change."""
