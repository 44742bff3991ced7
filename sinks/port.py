"""What the meter needs of a store, as protocols; what is built on top is the same for every store."""

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from sinks.archive import Archive
from sinks.meta import Meta
from sinks.readback import Readback
from sinks.rows import Rows
from sinks.snapshots import Snapshots


class Store(Rows, Protocol):
    """A store with everything that a worker stores in it. All calls block; any thread may call."""

    @property
    def snapshots(self) -> "Snapshots":
        """The shards' states."""
        ...

    @property
    def archive(self) -> "Archive":
        """The finished jobs."""
        ...

    @property
    def readback(self) -> "Readback":
        """The reader of rows by shard and version."""
        ...

    @property
    def meta(self) -> "Meta":
        """The store's metadata."""
        ...

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own SQL, with `{name:Type}` for parameters. DateTime columns are returned as uint32 seconds."""
        ...

    def close(self) -> None:
        """Release everything; later calls raise SinkError."""
        ...
