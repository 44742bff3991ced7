"""The connections of ClickHouse's driver to servers, with a deadline for each whole answer."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from clickhouse_connect.driver.httputil import get_pool_manager_options

from sinks.bounded_http import BoundedPool


@cache
def driver_pool(answer_s: float, ca_cert: Path | None) -> BoundedPool:
    """The process's pool of such connections, as the driver makes its own; `ca_cert`: who else signs for the server."""
    return BoundedPool(answer_s, **get_pool_manager_options(ca_cert=str(ca_cert) if ca_cert else None))
