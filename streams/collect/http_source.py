"""Asks an outside system over HTTP, within limits of time and size. It follows no redirect: a token must not travel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import urllib3
from pydantic import AfterValidator

from schemas.escaping import visible
from sinks.bounded_http import BoundedPool
from streams.collect.collector import SourceUnavailableError
from streams.errors import WrongUseError, why_no_answer

_TOKEN_BYTES: Final = 16_384
_COMPLAINT_BYTES: Final = 4_096


class BadStatusError(SourceUnavailableError):
    """The system answered, with a status that is not 200."""

    def __init__(self, message: str, status: int, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class OutsideAnswer(NamedTuple):
    """A body, and the headers it came with; their names in whatever case."""

    body: bytes
    headers: Mapping[str, str]


class OutsideApi:
    """One system under one address.

    `timeout_s` is for a whole answer, however slowly it comes; `bytes_at_most` for what it has.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str = "",
        timeout_s: float = 30.0,
        bytes_at_most: int = 64 * 2**20,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.address = address.rstrip("/")
        self._headers = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._bytes_at_most = bytes_at_most
        self._pool = BoundedPool(timeout_s, timeout=timeout_s, retries=False, maxsize=1)

    def get(self, path: str) -> bytes:
        """What it answers to a path that begins with a slash.

        Raises:
            BadStatusError: It answers with another status than 200.
            SourceUnavailableError: It does not answer, or with too much.
        """
        return self._request("GET", path, None).body

    def answer(self, path: str) -> OutsideAnswer:
        """What `get` returns, with its headers.

        Raises:
            BadStatusError: It answers with another status than 200.
            SourceUnavailableError: It does not answer, or with too much.
        """
        return self._request("GET", path, None)

    def post(self, path: str, body: bytes) -> bytes:
        """What it answers to a JSON document.

        Raises:
            BadStatusError: It answers with another status than 200.
            SourceUnavailableError: It does not answer, or with too much.
        """
        return self._request("POST", path, body).body

    def _request(self, method: str, path: str, body: bytes | None) -> OutsideAnswer:
        where = f"{self.address}{path.partition('?')[0]}"
        headers = {**self._headers, "Content-Type": "application/json"} if body is not None else self._headers
        try:
            with self._pool.request(
                method,
                self.address + path,
                body=body,
                headers=headers,
                redirect=False,
                preload_content=False,
            ) as response:
                status = response.status
                limit = self._bytes_at_most if status == 200 else _COMPLAINT_BYTES
                answer: bytes = response.read(limit + 1)
        except urllib3.exceptions.NewConnectionError as fault:  # a kind of TimeoutError
            raise SourceUnavailableError(f"{where}: no connection: {visible(why_no_answer(fault))}") from None
        except (urllib3.exceptions.TimeoutError, TimeoutError):
            raise SourceUnavailableError(
                f"{where}: no answer, or not all of it, within {self._pool.answer_s:g} s"
            ) from None
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as fault:
            raise SourceUnavailableError(f"{where}: no answer ({visible(why_no_answer(fault))})") from None
        if status != 200:
            said = visible(answer[:200].decode("utf-8", "replace"))
            raise BadStatusError(f"{where} answered {status}: {said}", status, response.headers)
        if len(answer) > limit:
            raise SourceUnavailableError(f"{where} answered more than {limit} bytes; see max_response_mib")
        return OutsideAnswer(answer, response.headers)


def checked_address(address: str) -> str:
    """The address of a system, without a slash at its end.

    Raises:
        ValueError: The text is not an address, or has a user and password, or a query.
    """
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query:
        raise ValueError(
            "expected an address such as http://127.0.0.1:8265, without a user, a password and a query"
        )
    return address.rstrip("/")


Address: TypeAlias = Annotated[str, AfterValidator(checked_address)]
"""The address of a system, in options."""


def token_of(path: Path | None) -> str:
    """The token in a file; none without a file.

    Raises:
        WrongUseError: The file cannot be read, or holds no token.
    """
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            text = file.read(_TOKEN_BYTES + 1)
        token = text.decode("ascii").strip()
    except OSError as fault:
        raise WrongUseError(f"{path}: {fault.strerror}; expected a file with a token") from None
    except UnicodeDecodeError:
        token = ""
    if not token or len(text) > _TOKEN_BYTES or not token.isprintable() or " " in token:
        raise WrongUseError(f"{path} holds no token: expected one line of ASCII without spaces")
    return token
