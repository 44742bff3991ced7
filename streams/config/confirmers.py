"""Who is sent what waits for a second person, as the setting `second_person.confirmers` says it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TEAM: Final = "team/"
_FORM: Final = re.compile(
    r"(?P<name>[^=]{1,256})(?:=(?P<identity>token/[a-z0-9][a-z0-9._-]{0,63}))?", re.ASCII
)


class Confirmer(NamedTuple):
    """An owner, or a team, whose addresses get the message; `identity`: whoever opens its link is this issued token."""

    owner: str = ""
    team: str = ""
    identity: str = ""


def confirmers_of(text: str) -> list[Confirmer]:
    """Read the setting.

    Raises:
        ValueError: A part is no name of an owner or team.
    """
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _FORM.fullmatch(part)
        name = "" if match is None else match["name"].strip()
        team = name.removeprefix(_TEAM) if name.startswith(_TEAM) else ""
        if match is None or not name or name == _TEAM:
            raise ValueError(f"{part}: expected the name of an owner, OWNER=token/NAME or {_TEAM}NAME")
        if team and match["identity"]:
            raise ValueError(f"{part}: a team is several people; name the owner whose token it is")
        found.append(Confirmer("" if team else name, team, match["identity"] or ""))
    return found


def checked(text: str) -> str:
    """The setting as it is.

    Raises:
        ValueError: As of `confirmers_of`.
    """
    confirmers_of(text)
    return text
