"""The columns of the table of controls: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import LABELS, MILLI, MONEY, TEXT, schema_of

CONTROLS: Final = "controls"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    CONTROLS: schema_of(
        offset=pa.int64(),  # of the record in its topic
        time=MILLI,  # log time
        kind=TEXT,
        name=TEXT,
        alert_id=TEXT,
        match=LABELS,
        begins=MILLI,
        until=MILLI,
        planned_usd_per_hour=MONEY,
        by=TEXT,
        comment=TEXT,
        source=TEXT,
        id=TEXT,
        removed=pa.bool_(),
        fault=TEXT,  # why it has no effect
        value=pa.string(),  # of rules, plans and silences, as JSON: their settings judge jobs, or recur
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {CONTROLS: ("offset",)}
