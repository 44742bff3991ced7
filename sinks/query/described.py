"""DESCRIBE and SHOW CREATE VIEW, for which ClickHouse's parser has no syntax tree.

It must allow no more of the text than a name of this store, or a statement that is checked by itself.
"""

import re
from typing import Final, NamedTuple

from sinks.query.refusal import RefusedQueryError

_NAME: Final = r"(?:`?(?P<database>\w{1,64})`?\.)?`?(?P<name>\w{1,64})`?"
_DESCRIBE: Final = re.compile(
    rf"\s*(?:DESCRIBE|DESC)\s+(?:TABLE\s+)?{_NAME}\s*;?\s*", re.ASCII | re.IGNORECASE
)
_DESCRIBE_QUERY: Final = re.compile(
    r"\s*(?:DESCRIBE|DESC)\s+(?:TABLE\s+)?(?P<query>\(.*\))\s*;?\s*", re.ASCII | re.IGNORECASE | re.DOTALL
)
_SHOW_CREATE: Final = re.compile(
    rf"\s*SHOW\s+CREATE\s+(?:VIEW\s+|TABLE\s+)?{_NAME}\s*;?\s*", re.ASCII | re.IGNORECASE
)


class Described(NamedTuple):
    """The object of the statement: a table or view, or the columns of a query."""

    prefix: str  # beginning of the statement to run
    name: str = ""
    query: str = ""


def described(sql: str, database: str) -> Described | None:
    """The object of the statement; None for other kinds of statements.

    Raises:
        RefusedQueryError: It names another database.
    """
    for pattern, prefix in ((_DESCRIBE, "DESCRIBE TABLE"), (_SHOW_CREATE, "SHOW CREATE VIEW")):
        found = pattern.fullmatch(sql)
        if found is not None:
            if found["database"] not in (None, database):
                raise RefusedQueryError(f"`{found['database']}` is not the database of this store")
            return Described(prefix, name=found["name"])
    found = _DESCRIBE_QUERY.fullmatch(sql)
    return None if found is None else Described("DESCRIBE TABLE", query=found["query"])
