"""Reads lists and watches from an API server, by HTTP: JSON as bytes, within limits of time and size.

It must not know what the objects mean, and must not show a token: no message holds what a file or a header has.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import urllib3

from schemas.escaping import visible
from sinks.bounded_http import BoundedPool
from streams.clock import Clock
from streams.collect.collector import SourceUnavailableError
from streams.collect.kubernetes.lines import Lines
from streams.collect.kubernetes.options import Options
from streams.errors import WrongUseError, why_no_answer

_IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CONNECT_S: Final = 10.0
#: Objects of a page; a page that is too large, since somebody has made large objects, is asked for in smaller ones.
_PAGE_OBJECTS: Final = (500, 50, 5)
_PAGE_BYTES: Final = 64 * 2**20
_TOKEN_BYTES: Final = 65_536
_READ_BYTES: Final = 65_536
_COMPLAINT_BYTES: Final = 4_096
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]+")
_HINTS: Final = {
    401: "the token is not accepted",
    403: "the ClusterRole must allow get, list and watch",
    404: "no such namespace or address",
}


class ExpiredError(SourceUnavailableError):
    """The server has no history from that resource version on: the objects must be listed anew."""


class Login(NamedTuple):
    """Where the API server is, and the files to log in with."""

    url: str
    token_file: Path | None
    ca_file: Path | None
    client_cert_file: Path | None
    client_key_file: Path | None


class ListPage(NamedTuple):
    """Some objects of a list; `version` is that of the whole list."""

    objects: list[msgspec.Raw]
    version: str


class ObjectAnswer(NamedTuple):
    """One object, or none: because there is none, or because it may not be read."""

    body: bytes | None = None
    is_denied: bool = False


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


def login_of(options: Options, environment: Mapping[str, str] = os.environ) -> Login:
    """How to reach the API server: as configured, or by the service account of the pod that this runs in.

    Raises:
        WrongUseError: Neither is there.
    """
    if options.url:
        return Login(
            options.url,
            options.token_file,
            options.ca_file,
            options.client_cert_file,
            options.client_key_file,
        )
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise WrongUseError(
            "[kubernetes] url: not in a cluster, so name the API server, e.g. https://10.0.0.1:6443"
        )
    return Login(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        options.token_file or _IN_CLUSTER / "token",
        options.ca_file or _IN_CLUSTER / "ca.crt",
        options.client_cert_file,
        options.client_key_file,
    )


class ApiServer:
    """One API server. The files of the login are read again when they change: tokens and certificates rotate."""

    def __init__(self, login: Login, clock: Clock, *, timeout_s: float, object_bytes: int) -> None:
        """`timeout_s`: how long it may be silent; `object_bytes`: larger objects of a watch are left out."""
        self._login = login
        self._clock = clock
        self._timeout_s = timeout_s
        self._object_bytes = object_bytes
        self._pool: BoundedPool | None = None
        self._pool_of: object = None

    def list(self, path: str, query: Mapping[str, str]) -> Iterator[ListPage]:
        """Yield all objects at a path, in pages.

        Raises:
            SourceUnavailableError: The rest cannot be read now.
        """
        following, sizes = "", iter(_PAGE_OBJECTS)
        size = next(sizes)
        while True:
            asked = {**query, "limit": str(size), **({"continue": following} if following else {})}
            try:
                body = self._body(path, asked)
            except _TooLargeError as fault:
                smaller = next(sizes, None)
                if smaller is None:
                    raise SourceUnavailableError(str(fault)) from None
                size = smaller
                continue
            page = self._decoded(body, path)
            yield ListPage(page.items or [], page.metadata.resource_version)
            following = page.metadata.next
            if not following:
                return

    def get(self, path: str) -> bytes | None:
        """The object at a path; None if there is none, or if it may not be read.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        return self.read(path).body

    def read(self, path: str) -> ObjectAnswer:
        """The object at a path, or why there is none.

        Raises:
            SourceUnavailableError: The server does not answer.
        """
        try:
            return ObjectAnswer(self._body(path, {}))
        except _RefusedError as fault:
            if fault.status in (403, 404):
                return ObjectAnswer(is_denied=fault.status == 403)
            raise

    def watch(self, path: str, query: Mapping[str, str], version: str, last_s: int) -> Iterator[bytes | None]:
        """Yield the events since a resource version as JSON, for so many seconds; None for one that is too large.

        Raises:
            ExpiredError: The server has no history from there on.
            SourceUnavailableError: The connection fails; what was yielded before is whole.
        """
        asked = {
            **query,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(last_s),
        }
        until_ms = self._clock.monotonic_ms() + (last_s + self._timeout_s) * 1000
        lines = Lines(self._object_bytes)
        # A server that answers by the very last second is still heard to its end.
        with self._answer(path, asked, last_s + self._timeout_s, last_s + 2 * self._timeout_s) as response:
            try:
                for part in response.stream(_READ_BYTES, decode_content=False):
                    yield from lines.add(part)
                    if self._clock.monotonic_ms() > until_ms:
                        raise SourceUnavailableError(f"{path}: the watch does not end")
            except (urllib3.exceptions.HTTPError, OSError) as fault:
                raise SourceUnavailableError(
                    f"{path}: the watch broke off ({type(fault).__name__})"
                ) from None
        if lines.is_inside:
            raise SourceUnavailableError(f"{path}: the watch broke off within an object")

    def _decoded(self, body: bytes, path: str) -> _List:
        try:
            return msgspec.json.decode(body, type=_List)
        except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
            raise SourceUnavailableError(f"{path}: no list ({visible(str(fault)[:200])})") from None

    def _body(self, path: str, query: Mapping[str, str]) -> bytes:
        body = bytearray()
        with self._answer(path, query, self._timeout_s, 10 * self._timeout_s) as response:
            try:
                for part in response.stream(_READ_BYTES, decode_content=False):
                    body += part
                    if len(body) > _PAGE_BYTES:
                        raise _TooLargeError(f"{path}: answers more than {_PAGE_BYTES} bytes")
            except (urllib3.exceptions.HTTPError, OSError) as fault:
                raise SourceUnavailableError(f"{path}: broke off ({type(fault).__name__})") from None
        return bytes(body)

    def _answer(
        self, path: str, query: Mapping[str, str], silent_s: float, answer_s: float
    ) -> urllib3.BaseHTTPResponse:
        """An answer of status 200, not yet read; from now on it may take `answer_s`.

        Raises:
            ExpiredError: The server answers 410.
            SourceUnavailableError: It does not answer, or with another status.
        """
        headers = {"Accept": "application/json", "User-Agent": "trainfare"}
        if self._login.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(self._login.token_file)}"
        pool = self._connected()
        pool.answer_s = answer_s
        try:
            response = pool.request(
                "GET",
                self._login.url + path,
                fields=dict(query),
                headers=headers,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=silent_s),
                redirect=False,
                retries=False,
                preload_content=False,
            )
        except ssl.SSLError as fault:
            raise SourceUnavailableError(f"{self._login.url}: {visible(why_no_answer(fault))}") from None
        except (urllib3.exceptions.HTTPError, OSError) as fault:
            raise SourceUnavailableError(
                f"{self._login.url}: no answer ({visible(why_no_answer(fault))})"
            ) from None
        if response.status == 200:
            return response
        with response:
            raise _refusal(response, f"{self._login.url}{path}")

    def _connected(self) -> BoundedPool:
        """The connections; new ones where a certificate has changed."""
        login = self._login
        files = (login.ca_file, login.client_cert_file, login.client_key_file)
        state = [_stat(path) for path in files]
        if self._pool is None or state != self._pool_of:
            ca, cert, key = (None if path is None else str(path) for path in files)
            self._pool = BoundedPool(
                self._timeout_s,
                maxsize=2,  # a watch, and a node that is asked for meanwhile
                cert_reqs="CERT_REQUIRED",
                ca_certs=ca,
                cert_file=cert,
                key_file=key,
            )
            self._pool_of = state
        return self._pool


class _TooLargeError(SourceUnavailableError):
    """An answer of more bytes than are read."""


class _RefusedError(SourceUnavailableError):
    """An answer of another status than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _refusal(response: urllib3.BaseHTTPResponse, where: str) -> SourceUnavailableError:
    """What an answer other than 200 means."""
    try:
        said = msgspec.json.decode(response.read(_COMPLAINT_BYTES), type=_Status)
        words = visible((said.message or said.reason)[:200])
    except (msgspec.MsgspecError, ValueError, RecursionError, urllib3.exceptions.HTTPError, OSError):
        words = ""
    if response.status == 410:
        return ExpiredError(f"{where}: {words or 'the resource version is too old'}")
    hint = _HINTS.get(response.status, "")
    return _RefusedError(
        response.status, f"{where} answered {response.status}: {'; '.join(filter(None, (words, hint)))}"
    )


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            token = file.read(_TOKEN_BYTES + 1).decode("ascii", "replace").strip()
    except OSError as fault:
        raise SourceUnavailableError(f"{path}: {fault.strerror}; see token_file") from None
    if len(token) > _TOKEN_BYTES or not _PRINTABLE.fullmatch(token):
        raise SourceUnavailableError(f"{path}: expected one token and nothing else; see token_file")
    return token


def _stat(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError as fault:
        raise SourceUnavailableError(f"{path}: {fault.strerror}") from None
    return found.st_mtime_ns, found.st_size
