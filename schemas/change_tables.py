"""The columns of the audit trail and of its chain of hashes: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import MILLI, TEXT, schema_of

CHANGES: Final = "changes"
CHANGE_SEALS: Final = "change_seals"
#: Headers of records that a worker writes for a client.
ADDRESS_HEADER: Final = "trainfare-address"
PROOF_HEADER: Final = "trainfare-proof"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    CHANGES: schema_of(
        offset=pa.int64(),  # of the record in the topic `controls`
        time=MILLI,  # log time
        kind=TEXT,
        name=TEXT,
        by=TEXT,
        proof=TEXT,  # how `by` was proven
        address=TEXT,  # of the client
        removed=pa.bool_(),
        after=pa.string(),  # its fields as JSON, without addresses and hashes of tokens
        comment=TEXT,
        source=TEXT,
        id=TEXT,
        version=pa.uint64(),
    ),
    CHANGE_SEALS: schema_of(
        offset=pa.int64(),
        time=MILLI,
        hash=pa.string(),
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {CHANGES: ("offset",), CHANGE_SEALS: ("offset",)}
