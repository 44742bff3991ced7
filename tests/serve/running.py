"""A meter that runs for the tests of a module, asked over HTTP with tokens that its command issues."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.cli.command import trainfare

_PATIENCE_S: Final = 60.0


class Running(NamedTuple):
    """A meter that runs, and its directory."""

    port: int
    data: Path

    def ask(self, method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        asked = Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        try:
            with urlopen(asked, timeout=30) as answer:
                return answer.status, _json(answer.read())
        except HTTPError as refused:
            return refused.code, _json(refused.read())

    def until(self, status: int, *asked: Any) -> Any:
        """The JSON of an answer, once it has the status: a worker reads back what it has written."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while (found := self.ask(*asked))[0] != status:
            assert time.monotonic() < deadline_s, found
            time.sleep(0.1)
        return found[1]

    def issue(self, name: str, *words: str) -> str:
        """A token that the command made, in force."""
        done = trainfare("tokens", "create", name, *words, "--data", self.data)
        assert done.code == 0, done.err
        token = done.out.strip()
        self.until(200, "GET", "/api/v1/whoami", token)
        return token


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
