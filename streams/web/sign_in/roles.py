"""Roles of people: what each may do, for which teams, and which groups of the identity provider have it."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from schemas.escaping import visible
from schemas.validate_tokens import MAX_BOUND
from streams.errors import WrongUseError
from streams.web.scopes import ALL, Scope

_FILE_MAX_BYTES: Final = 2**18
_ENTRIES_MAX: Final = 1_000
_GROUP_MAX_CHARS: Final = 256
_TEAM_MAX_CHARS: Final = 256
_ALL_TEAMS: Final = "all"
_FIELDS: Final = frozenset({"group", "role", "teams"})
_EXAMPLE: Final = '[[roles]] with group = "...", role = "..." and teams = "all" or ["..."]'


class PersonRole(StrEnum):
    """What a person is to this meter."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    FINANCE = "finance"
    ADMIN = "admin"


ROLE_SCOPES: Final[Mapping[PersonRole, frozenset[Scope]]] = {
    PersonRole.VIEWER: frozenset({Scope.READ}),
    PersonRole.OPERATOR: frozenset({Scope.METRICS, Scope.READ, Scope.QUERY, Scope.ACT}),
    PersonRole.FINANCE: frozenset({Scope.READ, Scope.QUERY, Scope.LIMIT}),
    PersonRole.ADMIN: ALL,
}


class RoleGrant(NamedTuple):
    """A role, for these teams; None: for all."""

    role: PersonRole
    teams: frozenset[str] | None


@dataclass(frozen=True)
class Granted:
    """What a person may do; `team_bounds` has the teams of those scopes that no role grants for all."""

    roles: frozenset[PersonRole]
    scopes: frozenset[Scope]
    team_bounds: Mapping[Scope, frozenset[str]]


@dataclass(frozen=True)
class RoleMap:
    """The roles of each group."""

    by_group: Mapping[str, frozenset[RoleGrant]]

    def of(self, groups: Collection[str]) -> Granted | None:
        """What a person in these groups may do; None: no group has a role."""
        return granted([each for group in groups for each in self.by_group.get(group, ())])


def granted(grants: Collection[RoleGrant]) -> Granted | None:
    """What these roles allow together: each scope within the teams of the roles that have it. None: there are none."""
    if not grants:
        return None
    bounds: dict[Scope, frozenset[str]] = {}
    of_all: set[Scope] = set()
    for role, teams in grants:
        for scope in ROLE_SCOPES[role]:
            if teams is None:
                of_all.add(scope)
            else:
                bounds[scope] = bounds.get(scope, frozenset()) | teams
    roles = frozenset(each.role for each in grants)
    within = {scope: teams for scope, teams in bounds.items() if scope not in of_all}
    return Granted(roles, frozenset(of_all | within.keys()), within)


def load_roles(path: Path) -> RoleMap:
    """The roles of a file.

    Raises:
        WrongUseError: It cannot be read, or an entry is wrong.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_MAX_BYTES + 1)
        if len(data) > _FILE_MAX_BYTES:
            raise WrongUseError(f"sign_in.roles_file {path} is larger than {_FILE_MAX_BYTES} bytes")
        found = tomllib.loads(data.decode())
    except OSError as fault:
        raise WrongUseError(f"sign_in.roles_file {path} cannot be read: {fault.strerror}") from fault
    except (ValueError, RecursionError) as fault:
        raise WrongUseError(f"sign_in.roles_file {path} is not TOML: {visible(str(fault))}") from fault
    entries = found.pop("roles", None)
    if found or not isinstance(entries, list) or not 1 <= len(entries) <= _ENTRIES_MAX:
        raise WrongUseError(
            f"sign_in.roles_file {path}: expected 1 to {_ENTRIES_MAX} entries {_EXAMPLE}, and nothing else"
        )
    by_group: dict[str, frozenset[RoleGrant]] = {}
    for number, entry in enumerate(entries, 1):
        try:
            group, grant = _entry(entry)
        except WrongUseError as fault:
            raise WrongUseError(f"sign_in.roles_file {path}, entry {number}: {fault}") from None
        by_group[group] = by_group.get(group, frozenset()) | {grant}
    return RoleMap(by_group)


def _entry(entry: Any) -> tuple[str, RoleGrant]:
    if not isinstance(entry, dict) or not set(entry) <= _FIELDS:
        raise WrongUseError(f"expected {_EXAMPLE}")
    group, role, teams = entry.get("group"), entry.get("role"), entry.get("teams")
    if not isinstance(group, str) or not 1 <= len(group) <= _GROUP_MAX_CHARS:
        raise WrongUseError(f"group: expected a text of 1 to {_GROUP_MAX_CHARS} characters")
    if role not in tuple(PersonRole):
        raise WrongUseError(f"role: expected one of {', '.join(PersonRole)}")
    if teams is None and role == PersonRole.VIEWER:
        raise WrongUseError(
            f'teams: say teams = "all" of a viewer ({visible(group)}) who sees every team, or list its teams'
        )
    return group, RoleGrant(PersonRole(role), _teams(teams, role))


def _teams(given: Any, role: str) -> frozenset[str] | None:
    if given is None or given == _ALL_TEAMS:
        return None
    if role == PersonRole.ADMIN:
        raise WrongUseError('teams: an admin is one of all teams; leave it out, or write teams = "all"')
    if (
        not isinstance(given, list)
        or not 1 <= len(given) <= MAX_BOUND
        or not all(isinstance(each, str) and 1 <= len(each) <= _TEAM_MAX_CHARS for each in given)
    ):
        raise WrongUseError(
            f'teams: expected "{_ALL_TEAMS}", or a list of 1 to {MAX_BOUND} names of teams of 1 to {_TEAM_MAX_CHARS} characters'
        )
    return frozenset(given)
