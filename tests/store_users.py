"""Users of the tests' server beside `default`, as an administrator would make them.

The engine behind it has no users: whoever asks as one of these is told these grants, and held to `readonly` alone.
"""

from typing import Final, NamedTuple


class User(NamedTuple):
    """What a user may do."""

    grants: list[str]
    read_only: str  # of its profile


USERS: Final = {
    "reader": User(["GRANT SELECT ON trainfare.* TO reader"], "2"),
    "reader_of_columns": User(
        ["GRANT SELECT(team, cost_usd) ON trainfare.job_costs TO reader_of_columns"], "0"
    ),
    "writer": User(
        ["GRANT SELECT ON trainfare.* TO writer", "GRANT INSERT ON trainfare.jobs TO writer"], "2"
    ),
    "reader_of_all": User(["GRANT SELECT ON *.* TO reader_of_all"], "2"),
    "granter": User(["GRANT SELECT ON trainfare.* TO granter WITH GRANT OPTION"], "2"),
    "fixed": User(["GRANT SELECT ON trainfare.* TO fixed"], "1"),
    "nobody": User([], "2"),
}


def grants_of(user: str) -> str:
    """The query that answers `SHOW GRANTS` for a user."""
    rows = "".join(", '" + grant.replace("'", "\\'") + "'" for grant in USERS[user].grants)
    if not rows:
        return "SELECT '' AS grant WHERE 0 FORMAT Native"
    return f"SELECT grant FROM values('grant String'{rows}) FORMAT Native"


def checked_grant(user: str, asked: str) -> str:
    """The query that answers `CHECK GRANT RIGHT ON ...` for a user."""
    right = asked.removeprefix("CHECK GRANT ").split(" ON ")[0]
    has = any(grant.startswith(f"GRANT {right} ON ") for grant in USERS[user].grants)
    return f"SELECT toUInt8({int(has)}) AS result FORMAT TabSeparated"
