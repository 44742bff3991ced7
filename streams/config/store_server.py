"""Where the ClickHouse server of the settings is; commands read it without loading an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinks.target import Server
    from streams.config.settings import ClickHouseSettings


def server_of(settings: ClickHouseSettings, retry_for_s: float) -> Server:
    """The configured server; a request that fails in passing is tried again for `retry_for_s` seconds."""
    from sinks.target import Server

    return Server(
        url=settings.url,
        database=settings.database,
        user=settings.user,
        password=settings.password.get_secret_value(),
        reader_user=settings.reader_user,
        reader_password=settings.reader_password.get_secret_value(),
        retry_for_s=retry_for_s,
        cluster=settings.cluster or "",
    )
