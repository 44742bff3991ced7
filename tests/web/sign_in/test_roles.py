"""Roles of groups, and people whom a proxy has signed in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from streams.config.load import SettingsError, load_settings
from streams.config.serving import SignInSettings
from streams.errors import WrongUseError
from streams.web.scopes import ALL, Scope
from streams.web.sign_in.people import PERSON_COOKIE
from streams.web.sign_in.roles import ROLE_SCOPES, Granted, PersonRole, RoleGrant, granted, load_roles
from tests.docs.sections import DOCS, rows, section
from tests.web.serving import WALL_MS, serving
from tests.web.sign_in.identity import READ, ROLES

SECRET = "what-the-proxy-shows-with-each-request"
SHOWN = {"X-Trainfare-Proxy-Secret": SECRET, "X-Forwarded-Email": "ada@example.com"}
ADA = {**SHOWN, "X-Forwarded-Groups": "strangers, on-call"}


def test_each_role_has_its_scopes() -> None:
    assert set(ROLE_SCOPES) == set(PersonRole)
    assert of({PersonRole.VIEWER: None}).scopes == {Scope.READ}
    assert of({PersonRole.OPERATOR: None}).scopes == {Scope.METRICS, Scope.READ, Scope.QUERY, Scope.ACT}
    assert of({PersonRole.FINANCE: None}).scopes == {Scope.READ, Scope.QUERY, Scope.LIMIT}
    assert of({PersonRole.ADMIN: None}).scopes == ALL
    both = of({PersonRole.VIEWER: None, PersonRole.FINANCE: None})
    assert (both.scopes, both.team_bounds) == (ROLE_SCOPES[PersonRole.FINANCE], {})
    assert granted(()) is None


def of(roles: dict[PersonRole, set[str] | None]) -> Granted:
    """What these roles allow together, each for its teams."""
    found = granted(
        [RoleGrant(role, None if teams is None else frozenset(teams)) for role, teams in roles.items()]
    )
    assert found is not None
    return found


def test_each_scope_holds_for_the_teams_of_the_roles_that_have_it() -> None:
    """What one role has for a team, no other role widens."""
    found = of({PersonRole.VIEWER: {"speech"}, PersonRole.OPERATOR: {"vision"}})
    assert found.team_bounds[Scope.READ] == {"speech", "vision"}
    assert found.team_bounds[Scope.ACT] == found.team_bounds[Scope.QUERY] == {"vision"}
    found = of({PersonRole.VIEWER: None, PersonRole.OPERATOR: {"vision"}})
    assert Scope.READ not in found.team_bounds
    assert found.team_bounds[Scope.ACT] == {"vision"}
    assert of({PersonRole.ADMIN: None, PersonRole.OPERATOR: {"vision"}}).team_bounds == {}


def test_the_file_says_which_group_has_which_role(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(ROLES)
    roles = load_roles(path)
    found = roles.of(["everyone", "on-call", "unknown"])
    assert found is not None
    assert found.roles == {PersonRole.VIEWER, PersonRole.OPERATOR}
    assert roles.of(["Everyone", ""]) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[roles]]\ngroup = "vision"\nrole = "admin"\nteams = ["vision"]', "an admin is one of all teams"),
        ('[[roles]]\ngroup = "vision"\nrole = "viewer"\nteams = "vision"', 'expected "all", or a list of 1 to 100 names'),
        ('[[roles]]\ngroup = "vision"\nrole = "viewer"\nteams = []', 'expected "all", or a list of 1 to 100 names'),
        ('[[roles]]\ngroup = "vision"\nrole = "viewer"\nteams = ["a", 1]', 'expected "all", or a list of 1 to 100 names'),
        ('[[roles]]\ngroup = "vision"\nrole = "viewer"\nteams = [""]', 'expected "all", or a list of 1 to 100 names'),
        ('[[roles]]\ngroup = "vision"\nrole = "viewer"', 'say teams = "all" of a viewer'),
        ('[[roles]]\ngroup = "vision"\nrole = "owner"', "expected one of viewer, operator, finance, admin"),
        ('[[roles]]\ngroup = "vision"\nrole = ["admin"]', "expected one of viewer"),
        ('[[roles]]\ngroup = ""\nrole = "admin"', "group: expected a text"),
        ('[[roles]]\ngroup = "vision"\nrole = "admin"\nteam = "a"', "expected [[roles]]"),
        ('roles = 1', "expected 1 to 1000 entries"),
        ("", "expected 1 to 1000 entries"),
        ("[[roles", "is not TOML"),
        ("x = " + "[" * 300_000, "larger than 262144 bytes"),
    ],
)  # fmt: skip
def test_a_file_that_is_wrong_says_what_is(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(text)
    with pytest.raises(WrongUseError) as fault:
        load_roles(path)
    assert words in str(fault.value)
    assert str(path) in str(fault.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="cannot be read: No such file"):
        load_roles(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"ISSUER": "http://id.example.com"}, "sign_in.issuer"),
        ({"ISSUER": "https://id.example.com/?a=b"}, "sign_in.issuer"),
        ({"ISSUER": "https://id.example.com", "ROLES_FILE": "/x", "CLIENT_ID": "a"}, "web.public_url"),
        ({"ISSUER": "https://id.example.com", "ROLES_FILE": "/x"}, "sign_in.client_id"),
        ({"ISSUER": "https://id.example.com"}, "sign_in.roles_file"),
        ({"PROXY_SECRET": "short"}, "sign_in.proxy_secret"),
        ({"PROXY_SECRET": SECRET}, "sign_in.roles_file"),
        ({"PROXY_USER_HEADER": "X Forwarded: User"}, "sign_in.proxy_user_header"),
        ({"SCOPES": "email"}, "sign_in.scopes"),
    ],
)
def test_settings_that_do_not_fit_together_are_said(given: dict[str, str], setting: str) -> None:
    env = {f"TRAINFARE_SIGN_IN_{name}": value for name, value in given.items()}
    with pytest.raises(SettingsError) as fault:
        load_settings(env)
    assert setting in {each.setting for each in fault.value.faults}
    assert SECRET not in str(fault.value)


# -- a proxy that has signed people in -----------------------------------------------------------------------


def asked(
    folder: Path, headers: Any, path: str = READ, method: str = "GET", text: str = ROLES
) -> tuple[int, Any]:
    """What a worker behind a proxy answers, with such a file of roles."""
    roles = folder / "roles.toml"
    roles.write_text(text)

    async def go() -> tuple[int, Any]:
        settings = SignInSettings(proxy_secret=SecretStr(SECRET), roles_file=roles)
        async with serving(None, sign_in=settings) as client:
            url = client.server.url + path
            async with client.session.request(method, url, headers=headers) as answer:
                return answer.status, await answer.json()

    return asyncio.run(go())


def test_a_proxy_with_the_secret_names_the_person(tmp_path: Path) -> None:
    status, said = asked(tmp_path, {**ADA, "Sec-Fetch-Site": "same-origin"})
    assert (status, said["token"], said["proven_by"]) == (200, "person/ada@example.com", "proxy")
    assert said["scopes"] == ["metrics", "read", "query", "act"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({name: value for name, value in ADA.items() if "Secret" not in name}, 401),
        ({**ADA, "X-Trainfare-Proxy-Secret": SECRET[:-1]}, 401),
        ({**ADA, "X-Trainfare-Proxy-Secret": ""}, 401),
        ({**ADA, "X-Forwarded-Email": " "}, 401),
        (SHOWN, 403),
        ({**ADA, "X-Forwarded-Groups": "strangers"}, 403),
        ([*ADA.items(), ("X-Forwarded-Groups", "sre")], 400),
        ([*ADA.items(), ("X-Forwarded-Email", "bob@example.com")], 400),
        ({"Cookie": f"{PERSON_COOKIE}=guessed"}, 401),
    ],
    ids=str,
)
def test_nobody_passes_for_the_proxy(tmp_path: Path, headers: Any, status: int) -> None:
    assert asked(tmp_path, headers)[0] == status


def test_another_site_cannot_act_through_the_proxy(tmp_path: Path) -> None:
    assert asked(tmp_path, ADA)[1]["scopes"] == ["read"]
    status, said = asked(tmp_path, ADA, "/api/v1/controls", "POST")
    assert (status, "the role of person/ada@example.com" in said["error"]["message"]) == (403, True)


OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


def in_groups(*groups: str) -> dict[str, str]:
    return {**SHOWN, **OWN_PAGE, "X-Forwarded-Groups": ",".join(groups)}


def of_team(role: str) -> str:
    return f'[[roles]]\ngroup = "vision"\nrole = "{role}"\nteams = ["vision"]\n'


@pytest.mark.parametrize("path", ["/api/v1/idle", "/api/v1/meter", "/api/v1/audit", "/metrics"])
def test_a_role_of_a_team_acts_within_it(tmp_path: Path, path: str) -> None:
    status, said = asked(tmp_path, in_groups("vision"), path, text=of_team("operator"))
    assert (status, said["error"]["code"]) == (403, "beyond_role")
    assert "is bound to teams, and what is asked for is of all" in said["error"]["message"]


def test_a_viewer_of_a_team_is_let_in_where_rows_are_kept_apart(tmp_path: Path) -> None:
    for path in ("/api/v1/jobs", "/api/v1/alerts"):
        status, said = asked(tmp_path, in_groups("vision"), path, text=of_team("viewer"))
        assert (status, said["error"]["code"]) == (503, "starting"), "let in, and there is no store"


def test_whose_teams_scopes_are_of_is_said(tmp_path: Path) -> None:
    status, said = asked(tmp_path, in_groups("vision"), text=of_team("viewer"))
    assert (status, said["team_bounds"]) == (200, {"read": ["vision"]})
    text = of_team("operator") + '[[roles]]\ngroup = "all"\nrole = "viewer"\nteams = "all"\n'
    status, said = asked(tmp_path, in_groups("vision", "all"), text=text)
    assert said["team_bounds"] == {scope: ["vision"] for scope in ("metrics", "query", "act")}
    assert asked(tmp_path, in_groups("vision", "all"), "/api/v1/jobs", text=text)[0] != 403
    assert asked(tmp_path, in_groups("vision", "all"), "/metrics", text=text)[0] == 403
    assert asked(tmp_path, in_groups("vision", "all"), "/api/v1/approvals", text=text) == (
        200,
        {"requests": []},
    )


@pytest.mark.parametrize("role", PersonRole)
def test_each_role_has_the_scopes_of_the_matrix(tmp_path: Path, role: PersonRole) -> None:
    told = {
        cells[0].strip("`"): cells[1:]
        for cells in rows(section((DOCS / "access_matrix.md").read_text(), "Roles"))
    }
    text = f'[[roles]]\ngroup = "all"\nrole = "{role}"\nteams = "all"\n'
    said = asked(tmp_path, in_groups("all"), text=text)[1]
    assert said["scopes"] == [
        str(each) for each, cell in zip(Scope, told[role], strict=True) if cell == "yes"
    ]


def test_groups_of_a_proxy_are_those_of_each_request_and_no_stream_outlives_them_for_long(
    tmp_path: Path,
) -> None:
    roles, now_ms = tmp_path / "roles.toml", [WALL_MS]
    roles.write_text(ROLES)
    own = {**ADA, "Sec-Fetch-Site": "same-origin"}

    async def go() -> tuple[list[int], int]:
        settings = SignInSettings(proxy_secret=SecretStr(SECRET), roles_file=roles)
        async with serving(None, sign_in=settings, clock=lambda: now_ms[0]) as client:
            found = []
            for group in ("sre", "everyone", "strangers", "sre"):
                headers = {**own, "X-Forwarded-Groups": group}
                async with client.session.get(
                    f"{client.server.url}/api/v1/tokens", headers=headers
                ) as answer:
                    found.append(answer.status)
            who = await client.get(READ, headers=own)
            async with client.session.get(f"{client.server.url}/api/v1/stream", headers=own) as answer:
                assert answer.status == 200
                now_ms[0] += settings.recheck_ms
                await asyncio.wait_for(answer.content.read(), 30)
            return found, who["session_until_ms"] - WALL_MS

    assert asyncio.run(go()) == ([200, 403, 403, 200], 300_000)


def test_wrong_secrets_are_counted_as_wrong_tokens_are(tmp_path: Path) -> None:
    roles = tmp_path / "roles.toml"
    roles.write_text(ROLES)

    async def go() -> list[int]:
        settings = SignInSettings(proxy_secret=SecretStr(SECRET), roles_file=roles)
        async with serving(None, sign_in=settings) as client, aiohttp.ClientSession() as session:
            found = []
            for secret in ["guess"] * 6 + [SECRET]:
                headers = {**ADA, "X-Trainfare-Proxy-Secret": secret}
                async with session.get(client.server.url + READ, headers=headers) as answer:
                    found.append(answer.status)
            return found

    assert asyncio.run(go()) == [401] * 5 + [429, 200]


def test_nobody_signs_in_where_there_is_no_provider(tmp_path: Path) -> None:
    assert asked(tmp_path, {}, "/sign_in")[0] == 404
    assert asked(tmp_path, {}, "/sign_in/callback?code=a&state=b")[0] == 404
    assert asked(tmp_path, {}, "/api/v1/sign_in") == (200, {"path": None, "name": None, "scopes": []})
