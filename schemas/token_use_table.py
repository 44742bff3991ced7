"""The columns of the table of when issued tokens were used last: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import MILLI, TEXT, schema_of

TOKEN_USES: Final = "token_uses"  # noqa: S105 - the name of a table

SCHEMAS: Final[dict[str, pa.Schema]] = {
    TOKEN_USES: schema_of(
        name=TEXT,  # of the token
        time=MILLI,  # when it was shown last, by the clock of the worker
        address=TEXT,  # of the client
        version=pa.uint64(),  # `time` in ms: of two workers the later use counts
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {TOKEN_USES: ("name",)}
