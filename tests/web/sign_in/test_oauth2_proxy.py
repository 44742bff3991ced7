"""People whom a real oauth2-proxy has signed in at a real provider, by the file of docs/sign_in.md."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from pydantic import SecretStr

from streams.config.serving import SignInSettings
from tests.docs.sections import DOCS
from tests.go_tools import go, installed
from tests.web.serving import serving
from tests.web.sign_in.identity import READ, ROLES
from tests.web.sign_in.test_real_provider import Person, free_port, new_key, running

pytestmark = pytest.mark.long

_PROGRAM: Final = "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6"
_YAML: Final = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECRET: Final = "what-the-proxy-shows-with-each-request"
ASKS: Final = {"X-Forwarded-Email": "eve@example.com", "X-Forwarded-Groups": "sre"}


def config(folder: Path, port: int, worker: int, issuer: int) -> Path:
    """The file of the docs, with the places of this test."""
    found = _YAML.search((DOCS / "sign_in.md").read_text())
    assert found is not None
    text = found[1]
    for old, new in (
        ("127.0.0.1:4180", f"127.0.0.1:{port}"),
        ("127.0.0.1:8787", f"127.0.0.1:{worker}"),
        ("https://id.example.com/realms/ml", f"http://localhost:{issuer}"),
        ("/etc/trainfare", str(folder)),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "proxy.secret").write_text(SECRET)
    (folder / "client.secret").write_text("a-secret-of-the-real-provider")
    path = folder / "oauth2-proxy.yaml"
    path.write_text(text)
    return path


@contextmanager
def proxy(folder: Path, file: Path, port: int) -> Iterator[None]:
    if go() is None:
        pytest.skip("no `go` on the PATH: oauth2-proxy is built from its module")
    words = [
        f"--alpha-config={file}", "--email-domain=*", "--cookie-secret=0123456789abcdef0123456789abcdef", "--cookie-secure=false",
        f"--redirect-url=http://localhost:{port}/oauth2/callback", "--skip-provider-button",
    ]  # fmt: skip
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen([installed(_PROGRAM), *words], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


async def answers(url: str) -> None:
    """Wait until the proxy answers."""
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            try:
                async with session.get(f"{url}/ping"):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.1)
    raise AssertionError("it does not answer; proxy.log says why")


def test_a_person_of_oauth2_proxy_is_who_the_provider_says(tmp_path: Path) -> None:
    groups, keys, roles = tmp_path / "groups", tmp_path / "keys", tmp_path / "roles.toml"
    groups.write_text('["on-call", "everyone"]')
    roles.write_text(ROLES)
    new_key(keys, "first")
    port, worker, issuer = free_port(), free_port(), free_port()
    public = f"http://localhost:{port}"
    settings = SignInSettings(proxy_secret=SecretStr(SECRET), roles_file=roles)
    file = config(tmp_path, port, worker, issuer)

    async def work() -> None:
        async with serving(None, sign_in=settings, port=worker, public_url=public) as client:
            person = Person(public)
            async with person.session:
                with running(issuer, groups, keys, f"{public}/oauth2/callback"), proxy(tmp_path, file, port):
                    await answers(public)
                    await person.go(f"{public}{READ}")
                    own = {"Origin": public}
                    # What a client sends in the proxy's headers does not reach the worker.
                    for headers in (own, {**own, **ASKS}, {**own, **ASKS, "X-Trainfare-Proxy-Secret": "x"}):
                        async with person.session.get(f"{public}{READ}", headers=headers) as answer:
                            said = await answer.json()
                        assert (said["token"], said["proven_by"]) == ("person/ada@example.com", "proxy")
                        assert said["scopes"] == ["metrics", "read", "query", "act"]
                    async with client.session.get(f"{client.server.url}{READ}", headers=ASKS) as answer:
                        assert answer.status == 401  # past the proxy nobody is believed

    asyncio.run(asyncio.wait_for(work(), 120))
