"""What gives a ClickHouse user the rows of its teams alone, by ClickHouse's own row policies: of the same list as what the worker answers from.

It must not make a policy that lets one team see another because there are several such users.
"""

from collections.abc import Sequence
from typing import Final

from sinks.query.team_rows import (
    BEHIND_VIEWS,
    COMMON,
    FILTERS,
    IN_ORDER,
    OF_USERS,
    OWN_JOBS,
    VIEWS,
    teams_text,
)

_QUOTED: Final = str.maketrans({"\\": "\\\\", "`": "\\`"})
#: Names are for all users at once: whoever has no policy of its own still sees what it saw.
_ALL: Final = "trainfare_all"
#: Which the user cannot change. A policy holds before any condition of a statement, but not before an index: `indexHint` and EXPLAIN
#: then tell between which names of others one's own rows lie.
SETTINGS: Final = {"readonly": "1", "final": "1", **IN_ORDER}


def readable() -> list[str]:
    """The tables and views that such a user may read, by name."""
    return sorted({*FILTERS, *COMMON, *VIEWS, *BEHIND_VIEWS})


def conditions(database: str, teams: Sequence[str]) -> dict[str, str]:
    """The condition of a row by table, of those tables that have one."""
    names = {"teams": teams_text(teams), "database": quoted(database)}
    own_jobs = OWN_JOBS.format(**names)
    found = {name: each.format(own_jobs=own_jobs, **names) for name, each in FILTERS.items()}
    found |= {name: f"({found[name]}) AND {each}" for name, each in OF_USERS.items()}
    found |= dict.fromkeys(sorted(BEHIND_VIEWS), "0")
    return {name: each.replace("''", "'") for name, each in sorted(found.items())}


def statements(database: str, user: str, teams: Sequence[str]) -> list[str]:
    """What an administrator of the server runs, in order; the password is to be put in."""
    where, who = quoted(database), quoted(user)
    tables = conditions(database, teams)
    settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS.items())
    grants = ", ".join(f"SELECT ON {where}.{name}" for name in readable())
    on_all = ", ".join(f"{where}.{name}" for name in tables)
    return [
        f"CREATE USER {who} IDENTIFIED WITH sha256_password BY '...' SETTINGS {settings}",
        # First: a table with a policy has no row for whoever no permissive one is for.
        f"CREATE ROW POLICY IF NOT EXISTS {_ALL} ON {on_all} AS PERMISSIVE FOR SELECT USING 1 TO ALL",
        *(
            f"CREATE ROW POLICY {who} ON {where}.{name} AS RESTRICTIVE FOR SELECT USING {condition} TO {who}"
            for name, condition in tables.items()
        ),
        f"GRANT {grants} TO {who}",
    ]


def quoted(name: str) -> str:
    """An identifier."""
    return f"`{name.translate(_QUOTED)}`"
