"""Opens each kind of store, and empties it between tests, for fixtures.

Opening costs 0.2 s of a core, and emptying less than that: a module shares a store. It must be closed with the module, since a process
can have one embedded engine at a time.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import clickhouse_connect

from schemas.tables import SCHEMAS, SNAPSHOTS
from sinks.clickhouse import ClickHouseStore, Embedded, Server, Target
from sinks.port import Store
from sinks.rows import Condition
from tests.bare_engine import ENGINE
from tests.new_store import begun


@contextlib.contextmanager
def opened(target: Target) -> Iterator[ClickHouseStore]:
    store = ClickHouseStore(target)
    try:
        yield store
    finally:
        store.close()


def embedded(data_dir: Path) -> contextlib.AbstractContextManager[ClickHouseStore]:
    """The store of a directory; a new one is a copy."""
    return opened(Embedded(data_dir=begun(data_dir)))


def empty(target: Target) -> None:
    """Forget all rows, and the tokens of their inserts."""
    if isinstance(target, Server):
        client = clickhouse_connect.get_client(
            host=target.host, port=target.port, compress=False, database=target.database
        )
        run = client.command
    else:
        client = None
        handle = ENGINE.connect(str(target.engine_dir))
        run = handle.query
    for table in SCHEMAS:
        run(f"TRUNCATE TABLE `{target.database}`.`{table}`")
    (client or handle).close()


def kept(store: Store, shard: int, wanted: list[int]) -> list[int]:
    """The versions of snapshots that are left, as soon as they are those: what is pruned goes some time after."""
    where, deadline_s = [Condition("shard", "=", shard)], time.monotonic() + 20
    while True:
        found: list[int] = store.select(SNAPSHOTS, where, ("version",))["version"].to_pylist()
        if found == wanted or time.monotonic() > deadline_s:
            return found
        time.sleep(0.01)
