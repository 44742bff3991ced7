"""The columns of the table of clocks that run ahead of the log: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import SECOND, TEXT, schema_of

RECORDS_AHEAD: Final = "records_ahead"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    RECORDS_AHEAD: schema_of(
        minute=SECOND,  # of log time
        source=TEXT,
        node=TEXT,  # of samples and events of nodes; empty otherwise
        topic=TEXT,
        shard=pa.uint16(),
        records=pa.uint64(),
        refused=pa.uint64(),  # of these, as `future`
        most_ahead_ms=pa.int64(),
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {RECORDS_AHEAD: ("source", "node", "topic", "shard", "minute")}
