"""The columns of the table of what sources were read: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import MILLI, TEXT, schema_of

SOURCES: Final = "sources"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    SOURCES: schema_of(
        name=TEXT,
        offset=pa.int64(),  # of the record in its topic
        entry_class=TEXT,
        reason=TEXT,
        time=MILLI,  # log time
        polled=MILLI,  # when the last of its polls ended, by the source's clock
        polls=pa.uint64(),
        entries=pa.uint64(),
        example=TEXT,
        standing=pa.bool_(),
        removed=pa.bool_(),
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {SOURCES: ("name", "offset", "entry_class", "reason")}
