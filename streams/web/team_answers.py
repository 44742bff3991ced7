"""Answers whoever is bound to teams: by handlers whose every part reads rows of these teams alone, and says that it is partial."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from aiohttp import web

from streams.web.encode import to_json
from streams.web.middleware import TEAMS
from streams.web.security import BY_TEAM

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Teams: TypeAlias = tuple[str, ...]
#: Sets of teams whose handlers are kept.
_KEPT_MAX: Final = 64
_NAMED_MAX: Final = 5


class TeamHandlers(NamedTuple):
    """The handlers of those who are bound to some teams, by method and path."""

    by_route: Mapping[tuple[str, str], Handler]


class TeamAnswers:
    """Chooses who answers a request."""

    def __init__(self, made: Callable[[Teams], TeamHandlers]) -> None:
        """`made`: the handlers of some teams."""
        self._made = made
        self._known: OrderedDict[Teams, TeamHandlers] = OrderedDict()

    def handler(self, method: str, path: str, whole: Handler) -> Handler:
        """What answers a route; `whole` does for everybody who sees all teams."""

        async def answered(request: web.Request) -> web.StreamResponse:
            teams, resource = request.get(TEAMS), request.match_info.route.resource
            if teams is None or resource is None or resource.canonical not in BY_TEAM:
                return await whole(request)
            response = await self._of(teams).by_route[method, path](request)
            if isinstance(response, web.Response):
                _say_partial(response, teams)
            return response

        return answered

    def _of(self, teams: Teams) -> TeamHandlers:
        found = self._known.pop(teams, None) or self._made(teams)
        self._known[teams] = found
        if len(self._known) > _KEPT_MAX:
            self._known.popitem(last=False)
        return found


def partial_of(teams: Teams) -> str:
    """What an answer says that is made of rows of some teams alone."""
    more = f" and {len(teams) - _NAMED_MAX} more" if len(teams) > _NAMED_MAX else ""
    return f"{'team' if len(teams) == 1 else 'teams'} {', '.join(teams[:_NAMED_MAX])}{more}"


def partial_header(teams: Teams) -> dict[str, str]:
    """What the headers of such an answer say."""
    return {"X-Partial": quote(partial_of(teams), safe=" ,")}


def _say_partial(response: web.Response, teams: Teams) -> None:
    if not response.prepared:
        response.headers.update(partial_header(teams))
    body = response.body
    if isinstance(body, bytes) and response.content_type == "application/json" and body[:1] == b"{":
        rest = body[1:] if body[1:2] == b"}" else b"," + body[1:]
        response.body = b'{"partial":' + to_json(partial_of(teams)) + rest
