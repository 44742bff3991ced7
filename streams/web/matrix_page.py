"""Writes docs/access_matrix.md: which scope is let in at which path, which kind of control it may write, and for whom.

`python -m streams.web.matrix_page` prints the page; tests/serve/test_matrix.py asks a running worker for each cell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from schemas.validate_requests import ACTIONS
from streams.web.routes import Route, Routes
from streams.web.scopes import ALL, CONTROL_SCOPES, Scope
from streams.web.security import BY_TEAM, OF_BOUND
from streams.web.sign_in.roles import ROLE_SCOPES, PersonRole

YES, NO, OPEN_TO_ALL, WITHIN = "yes", "-", "open", "within"
#: A token that has one of these scopes and a bound.
BOUNDED: Final = (Scope.READ, Scope.QUERY, Scope.INGEST, Scope.ACT, Scope.LIMIT)
#: What a token bound to a team writes a control about.
ABOUT: Final = ("own team", "another team", "no team")

_BEGIN: Final = """# Who may what

Made by `make docs` from the paths that are served. A test issues a token of each scope on a running worker and asks for each cell. [Scopes and bounds](company.md#tokens)
"""
_PATHS: Final = f"""
## Paths

`{YES}`: a token of this scope is let in. `{NO}`: 403. `{OPEN_TO_ALL}`: no token is needed; [webhooks and signed links](../SECURITY.md#clients-and-the-network) have a secret of their own. The last column is a token with the scope and a bound, such as a team: `{WITHIN}` is within the
bound, each event and control by itself; of `read` and `query` the answer is made of [rows of these teams alone](access.md#rows-by-team); `{NO}` is 403, as the answer is for all.
"""
_ROLES: Final = """
## Roles

The scopes of people who have [signed in](sign_in.md#roles), each within the teams of the role. A role that is bound to teams is let in where the last column above says so.
"""
_CONTROLS: Final = """
## Kinds of controls

`POST /api/v1/controls`, by kind. `source` has a path for collectors, `POST /api/v1/sources`, with `ingest`; kinds that are not here are no request of HTTP at all (400), whatever the token.
"""
_TEAMS: Final = """
## Controls of a token bound to a team

With the scope that the kind needs. `source` and `actions` are not a team's to say; an acknowledgement is about the team of its alert, an override about that of its budget.
"""


def page() -> str:
    """The page in Markdown."""
    scopes = [str(each) for each in Scope]
    parts = [
        _BEGIN,
        _PATHS,
        _table(["path", *scopes, "bound"], [path_row(route) for route in routes()]),
        _ROLES,
        _table(["role", *scopes], [_role_row(role) for role in PersonRole]),
        _CONTROLS,
        _table(["kind", *scopes], [_kind_row(kind) for kind in CONTROL_SCOPES]),
        _TEAMS,
        _table(["kind", *ABOUT], [_team_row(kind) for kind in CONTROL_SCOPES]),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def routes() -> Sequence[Route]:
    """Every route that is served."""
    return Routes(None).table()  # type: ignore[arg-type]  # nothing is asked, only the paths are looked at


def path_row(route: Route) -> list[str]:
    """The cells of a path."""
    if route.scope is None:
        return [_named(route), *[OPEN_TO_ALL] * len(Scope), OPEN_TO_ALL]
    needed = frozenset({route.scope}) if isinstance(route.scope, Scope) else route.scope
    cells = [YES if needed & _granted(scope) else NO for scope in Scope]
    return [_named(route), *cells, WITHIN if route.path in OF_BOUND or _canonical(route) in BY_TEAM else NO]


def _granted(scope: Scope) -> frozenset[Scope]:
    return ALL if scope is Scope.ADMIN else frozenset({scope})


def _named(route: Route) -> str:
    return f"`{route.method} {_canonical(route)}`"


def _canonical(route: Route) -> str:
    return route.path.replace(":[^/]+", "").replace(":.+", "")


def _role_row(role: PersonRole) -> list[str]:
    return [f"`{role}`", *(YES if scope in ROLE_SCOPES[role] else NO for scope in Scope)]


def _kind_row(kind: str) -> list[str]:
    return [f"`{kind}`", *(YES if CONTROL_SCOPES[kind] in _granted(scope) else NO for scope in Scope)]


def _team_row(kind: str) -> list[str]:
    return [f"`{kind}`", NO if kind in ("source", ACTIONS) else YES, NO, NO]


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
