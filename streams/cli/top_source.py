"""Where `trainfare top` finds its figures: a worker's API if there is one, else the store itself.

It must not start a worker, nor make a store.
"""

from __future__ import annotations

from sinks.errors import SinkError
from streams.cli.top_data import MeterView, Source, SourceError
from streams.cli.top_http import HttpSource, NobodyAnswersError, announced, configured
from streams.cli.top_store import StoreSource
from streams.config.settings import Settings
from streams.web import local_token


def source_for(settings: Settings, url: str | None = None) -> Source:
    """Return the source: the address given, else whatever is found at each look."""
    token = None if settings.web.token is None else settings.web.token.get_secret_value()
    return Found(settings, token) if url is None else HttpSource(url, token)


class Found:
    """Looks anew each time, so that a worker may come and go while somebody watches."""

    def __init__(self, settings: Settings, token: str | None) -> None:
        self._settings, self._token = settings, token
        self._http: HttpSource | None = None
        self._store = StoreSource(settings)

    def fetch(self) -> MeterView:
        """Ask the worker; where none answers, the store."""
        url = self._address()
        if url is None:
            return self._store.fetch()
        if self._http is None or self._http.url != url:
            self._http = HttpSource(url, self._token or self._token_of_directory())
        try:
            return self._http.fetch()
        except NobodyAnswersError:
            return self._store.fetch()

    def _token_of_directory(self) -> str | None:
        data_dir = self._settings.clickhouse.data_dir
        try:
            return None if data_dir is None else local_token.read(data_dir)
        except SinkError as refused:
            raise SourceError(str(refused)) from refused

    def _address(self) -> str | None:
        data_dir = self._settings.clickhouse.data_dir
        return configured(self._settings.web) if data_dir is None else announced(data_dir)
