"""Finds the figures of `trainfare top`: a worker's API if there is one, otherwise the store itself.

It must not follow redirects, nor send the token to any other address; nor keep a directory open between two reads: a
worker could not start meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError

from sinks.bounded_http import BoundedPool
from sinks.directory_lock import holder_of
from sinks.errors import SinkError
from streams.cli.reading import Reader, reader
from streams.cli.running_meter import of_running_meter
from streams.cli.top.figures import MeterView, Source, SourceError, snapshot_of
from streams.clock import Clock, SystemClock
from streams.config.live import WebSettings
from streams.config.settings import Settings
from streams.errors import WrongUseError
from streams.web import endpoint, local_token
from streams.web.encode import to_json
from streams.web.figures import ApiFigures
from streams.web.job_list import Q_MAX_BYTES, WORDS_MAX, JobList, request_of
from streams.web.store_reader import Row, StoreReader

JOBS_MAX = 500
ALERTS_MAX = 100
SERVER_EVERY_MS = 3_000
DIRECTORY_EVERY_MS = 10_000
"""A directory that no worker has open changes only by a replay; opening the engine takes a second of a core."""
_ANSWER_MAX_BYTES = 64 * 2**20
_ANSWER_S = 30.0
_JOBS = f"/api/v1/jobs?limit={JOBS_MAX}&order=burn"
_OTHERS = ("/api/v1/burn", f"/api/v1/alerts?limit={ALERTS_MAX}")


def askable(words: str) -> str:
    """What of the typed words a meter searches for: it takes so many, of such a length."""
    kept = words.split()[:WORDS_MAX]
    while kept and len(" ".join(kept).encode("utf-8", "ignore")) > Q_MAX_BYTES:
        kept.pop()
    return " ".join(kept).encode("utf-8", "ignore").decode()


class NobodyAnswersError(SourceError):
    """Nothing listens at the address."""


class HttpSource:
    """The API at one address."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = checked(url)
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        timeout = urllib3.Timeout(connect=2.0, read=8.0)
        self._pool = BoundedPool(_ANSWER_S, headers=headers, timeout=timeout, retries=False, maxsize=1)

    def fetch(self, words: str = "") -> MeterView:
        """Request the three responses of a screen.

        Raises:
            SourceError: One of them is not available.
        """
        searched = f"{_JOBS}&q={quote(asked, safe='')}" if (asked := askable(words)) else _JOBS
        jobs, burn, alerts = (self._get(path) for path in (searched, *_OTHERS))
        return snapshot_of(jobs, burn, alerts, self.url, words)

    def _get(self, path: str) -> bytes:
        try:
            answer = self._pool.request("GET", self.url + path, redirect=False, preload_content=False)
            try:
                body = answer.read(_ANSWER_MAX_BYTES + 1)
            finally:
                answer.release_conn()
        except (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.NewConnectionError) as error:
            raise NobodyAnswersError(f"nobody answers at {self.url}; is the worker running?") from error
        except HTTPError as error:
            said = str(error).rpartition(": ")[2] or type(error).__name__
            raise SourceError(f"{self.url} does not answer: {said}") from error
        if answer.status != 200:
            raise SourceError(_refused(self.url, answer.status, body))
        if len(body) > _ANSWER_MAX_BYTES:
            answer.close()
            raise SourceError(f"{self.url}{path}: an answer over {_ANSWER_MAX_BYTES >> 20} MiB")
        return body


def _refused(url: str, status: int, body: bytes) -> str:
    if status == 401:
        return f"{url} asks for its token: {local_token.WHERE}"
    try:
        said = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = "no reason given"
    return f"{url} answers {status}: {said}"


def checked(url: str) -> str:
    """The address of an API without a trailing slash.

    Raises:
        WrongUseError: The text is not an address of http or https.
    """
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
    """The address at which this machine reaches the configured worker."""
    return endpoint.url_of(web.bind, web.port)


def announced(data_dir: Path) -> str | None:
    """The address in a data directory's `api.json`; None if there is none.

    Raises:
        SourceError: The file cannot be trusted.
    """
    try:
        found = endpoint.read(data_dir)
        return checked(found.url) if found is not None and found.pid == holder_of(data_dir) else None
    except WrongUseError:
        return None  # stale, or not of a worker: treated as absent
    except SinkError as refused:
        raise SourceError(str(refused)) from refused


class StoreSource:
    """The configured store, read at an interval; in between, the last figures are returned."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = SystemClock() if clock is None else clock
        self._last: MeterView | None = None
        self._words = ""
        self._looked_ms = 0

    def fetch(self, words: str = "") -> MeterView:
        """The figures of the last read, or read again."""
        every_ms = DIRECTORY_EVERY_MS if self._settings.clickhouse.data_dir else SERVER_EVERY_MS
        now_ms = self._clock.monotonic_ms()
        if self._last is None or words != self._words or now_ms - self._looked_ms >= every_ms:
            with reader(self._settings) as store:
                self._last = asyncio.run(self._look(store, words))
            self._words, self._looked_ms = words, now_ms
        return self._last

    async def _look(self, store: Reader, words: str) -> MeterView:
        asker = _ReaderAsker(store)
        figures = ApiFigures(asker, self._clock.monotonic_ms)
        asked = request_of({"limit": str(JOBS_MAX), "q": askable(words)})
        jobs = to_json(await JobList(asker, figures).page(asked))
        alerts = to_json(await figures.alerts(limit=ALERTS_MAX))
        clickhouse = self._settings.clickhouse
        origin = f"{clickhouse.data_dir or clickhouse.url}, as stored: no worker answers"
        return snapshot_of(jobs, to_json(await figures.burn()), alerts, origin, words)


class _ReaderAsker(StoreReader):
    """Runs one query after the other on a store that is open here."""

    def __init__(self, store: Reader) -> None:
        super().__init__(lambda: None, "top")
        self._reader = store

    async def rows(self, sql: str, **parameters: object) -> list[Row]:
        """The rows of a query as objects."""
        return self._reader.records(sql, **parameters)


class Found:
    """Searches again at each fetch, so that a worker may start or stop meanwhile."""

    def __init__(self, settings: Settings, token: str | None) -> None:
        self._settings, self._token = settings, token
        self._http: HttpSource | None = None
        self._store = StoreSource(settings)

    def fetch(self, words: str = "") -> MeterView:
        """Query the worker; if none answers, the store."""
        data_dir = self._settings.clickhouse.data_dir
        url = configured(self._settings.web) if data_dir is None else announced(data_dir)
        if url is not None:
            if self._http is None or self._http.url != url:
                self._http = HttpSource(
                    url,
                    self._token
                    or (local_token.read(data_dir, self._settings.at_rest.keys) if data_dir else None),
                )
            with suppress(NobodyAnswersError):
                return self._http.fetch(words)
        return self._store.fetch(words)


def source_for(settings: Settings, url: str | None = None) -> Source:
    """The source: the given address, otherwise whatever is found at each fetch."""
    if url is None:
        settings = of_running_meter(settings, says=False)  # its screen says where the figures are from
    token = None if settings.web.token is None else settings.web.token.get_secret_value()
    return Found(settings, token) if url is None else HttpSource(url, token)
