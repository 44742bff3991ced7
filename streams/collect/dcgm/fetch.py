"""Gets an exporter's text over HTTP, within a limit of time and size.

It must not follow redirects: they would lead the collector wherever an exporter wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import urllib3

from sinks.bounded_http import BoundedPool
from streams.clock import Clock

Fetch = Callable[[str], bytes]
"""Takes an address and returns the text.

Raises:
    TimeoutError: It took too long.
    urllib3.exceptions.HTTPError, OSError, ValueError: There is none.
"""

#: Text of one exporter: 16 GPUs with 7 slices and a hundred fields are 5 MB.
_TEXT_BYTES_AT_MOST: Final = 16 * 2**20
_PIECE_BYTES: Final = 2**18
#: Connections that are kept open for the next scrape; the others are opened anew.
_HOSTS_KEPT_AT_MOST: Final = 256


def fetch_with(clock: Clock, timeout_s: float, at_once: int) -> Fetch:
    """A function that up to `at_once` threads may call; each call ends after `timeout_s` at most."""
    pool = BoundedPool(
        timeout_s,
        monotonic_s=lambda: clock.monotonic_ms() / 1000,
        num_pools=_HOSTS_KEPT_AT_MOST,
        maxsize=at_once,
        timeout=urllib3.Timeout(total=timeout_s),
        retries=False,
    )

    def fetch(address: str) -> bytes:
        try:
            with pool.request("GET", address, preload_content=False, redirect=False) as response:
                return _text(response)
        except urllib3.exceptions.TimeoutError:
            raise TimeoutError(f"the answer took more than {timeout_s:g} s") from None

    return fetch


def _text(response: urllib3.BaseHTTPResponse) -> bytes:
    if response.status != 200:
        raise ValueError(f"answered {response.status}")
    pieces, size = [], 0
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > _TEXT_BYTES_AT_MOST:
            raise ValueError(f"answered more than {_TEXT_BYTES_AT_MOST} bytes")
    return b"".join(pieces)
