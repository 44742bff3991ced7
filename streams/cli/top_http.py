"""Snapshots from the HTTP API of a worker.

It must not follow redirects, nor hand the token to any address but the one it was made with.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError

from sinks.clickhouse.lock import holder_of
from sinks.errors import SinkError
from streams.cli.top_data import MeterView, SourceError, snapshot_of
from streams.config.live import WebSettings
from streams.errors import WrongUseError
from streams.web import endpoint

JOBS_MAX = 500
ALERTS_MAX = 100
_ANSWER_MAX_BYTES = 64 * 2**20
_PATHS = (
    f"/api/v1/jobs?limit={JOBS_MAX}&order=burn",
    "/api/v1/burn",
    f"/api/v1/alerts?limit={ALERTS_MAX}",
)


class NobodyAnswersError(SourceError):
    """Nothing listens at the address."""


class HttpSource:
    """The API at one address."""

    def __init__(
        self, url: str, token: str | None = None, *, connect_s: float = 2.0, read_s: float = 8.0
    ) -> None:
        self.url = checked(url)
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=connect_s, read=read_s), retries=False, maxsize=1
        )

    def fetch(self) -> MeterView:
        """Ask the three questions whose answers make a screen."""
        jobs, burn, alerts = (self._get(path) for path in _PATHS)
        return snapshot_of(jobs, burn, alerts, self.url)

    def _get(self, path: str) -> bytes:
        try:
            answer = self._pool.request(
                "GET", self.url + path, headers=self._headers, redirect=False, preload_content=False
            )
            try:
                body = answer.read(_ANSWER_MAX_BYTES + 1)
            finally:
                answer.release_conn()
        except (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.NewConnectionError) as error:
            raise NobodyAnswersError(f"nobody answers at {self.url}; is the worker running?") from error
        except HTTPError as error:
            raise SourceError(f"{self.url} does not answer: {_brief(error)}") from error
        if answer.status != 200:
            raise SourceError(_refused(self.url, answer.status, body))
        if len(body) > _ANSWER_MAX_BYTES:
            answer.close()
            raise SourceError(f"{self.url}{path}: an answer over {_ANSWER_MAX_BYTES >> 20} MiB")
        return body


def checked(url: str) -> str:
    """Return the address of an API without its last slash; refuse what is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise WrongUseError(f"--url {url}: expected an address such as http://127.0.0.1:8787")
    if parts.username or parts.password:
        raise WrongUseError("--url: leave user and password out; the token goes into web.token")
    if parts.query or parts.fragment:
        raise WrongUseError(f"--url {url}: expected no query, e.g. http://127.0.0.1:8787")
    try:
        urllib3.util.parse_url(url)
    except LocationParseError as error:
        raise WrongUseError(f"--url {url}: {error}") from error
    return url.rstrip("/")


def configured(web: WebSettings) -> str:
    """Return the address at which the settings' worker is reached from this machine."""
    return endpoint.url_of(web.bind, web.port)


def announced(data_dir: Path) -> str | None:
    """Return the address that the process which holds a data directory wrote there; None if it wrote none."""
    try:
        found = endpoint.read(data_dir)
        return checked(found.url) if found is not None and found.pid == holder_of(data_dir) else None
    except WrongUseError:
        return None  # left behind by somebody, or not of a worker: as good as absent
    except SinkError as refused:
        raise SourceError(str(refused)) from refused


def _refused(url: str, status: int, body: bytes) -> str:
    if status == 401:
        return f"{url} asks for a token: set web.token (TRAINFARE_WEB_TOKEN) to that of the worker"
    try:
        said = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = "no reason given"
    return f"{url} answers {status}: {said}"


def _brief(error: HTTPError) -> str:
    return str(error).rpartition(": ")[2] or type(error).__name__
