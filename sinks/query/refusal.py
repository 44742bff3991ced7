"""Reasons for not answering a query, as exceptions inside the query process."""

from typing import Final


class RefusedQueryError(Exception):
    """The statement may do more than read, or is larger than allowed."""


class FailedQueryError(Exception):
    """ClickHouse could not run it, or it exceeded a limit."""


class QueriesOffError(Exception):
    """No query can run; the message says what has to change."""


NOT_ON_SERVER: Final = (
    "rows are kept apart by team in an embedded store alone: of a ClickHouse server this identity, which is bound to teams, "
    "sees nothing here; docs/access.md#rows-by-team has row policies for ClickHouse's own users"
)
