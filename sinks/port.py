"""What the meter needs of a store, as protocols; the books on top of it are the same for every store.

It must not know which store it is, nor speak SQL, but for `query`, which only a real store can answer.
"""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from sinks.archive import Archive
from sinks.meta import Meta
from sinks.readback import Readback
from sinks.rows import Rows
from sinks.snapshots import Snapshots


class Store(Rows, Protocol):
    """A store with the books that a worker keeps in it. All calls block; any thread may call."""

    @property
    def snapshots(self) -> "Snapshots":
        """Shards' states."""
        ...

    @property
    def archive(self) -> "Archive":
        """Finished jobs."""
        ...

    @property
    def readback(self) -> "Readback":
        """Rows by shard and version."""
        ...

    @property
    def meta(self) -> "Meta":
        """Facts about the whole store."""
        ...

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own SQL, with `{name:Type}` for parameters. DateTime columns come as uint32 seconds."""
        ...

    def close(self) -> None:
        """Let go of everything; later calls raise SinkError."""
        ...
