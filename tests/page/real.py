"""The worker's own server over a store, in a thread of its own, for a browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.web.serving import serving


@contextmanager
def serving_page(store: ClickHouseStore | None, **options: Any) -> Iterator[str]:
    """Yield the address of a page whose figures are of the store."""
    urls: list[str] = []
    ready, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(store, **options) as client:
            urls.append(client.server.url)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield urls[0]
    finally:
        over.set()
        thread.join(20)


@contextmanager
def serving_data(data_dir: Path, **options: Any) -> Iterator[str]:
    """Yield the address of a page whose figures are of the store in a directory."""
    with (
        closing(ClickHouseStore(Embedded(data_dir=data_dir))) as store,
        serving_page(store, **options) as url,
    ):
        yield url
