"""The columns of the tables of commitments, allocation rules and carbon intensities: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import DOLLARS, LABELS, MILLI, MONEY, SECOND, TEXT, schema_of

COMMITMENTS: Final = "commitments"
CARBON_INTENSITIES: Final = "carbon_intensities"
ALLOCATION_RULES: Final = "allocation_rules"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    COMMITMENTS: schema_of(
        commitment_id=TEXT,
        kind=TEXT,  # reserved, savings_plan, committed_use, capacity_block, owned
        provider=TEXT,
        team=TEXT,  # bears what is not used
        from_time=SECOND,
        to_time=SECOND,
        cost_usd=pa.decimal128(38, 9),  # all of it, from begin to end
        gpu_milli=pa.int64(),  # thousandths of a GPU; 0 of a savings plan
        usd_per_hour=MONEY,  # what a savings plan commits to; 0 of the others
        cloud=TEXT,  # what it is for, as the match fields of a price; empty matches anything
        region=TEXT,
        zone=TEXT,
        cluster=TEXT,
        account=TEXT,
        instance_type=TEXT,
        gpu_type=TEXT,
        purchase=TEXT,
        is_removed=pa.uint8(),  # a newer file does not have it
        source=TEXT,  # the file
        time=MILLI,
        version=pa.uint64(),
    ),
    CARBON_INTENSITIES: schema_of(
        region=TEXT,
        hour=SECOND,
        g_per_kwh=MONEY,
        source=TEXT,  # the file
        time=MILLI,
        version=pa.uint64(),
    ),
    ALLOCATION_RULES: schema_of(
        rule_name=TEXT,
        place=pa.int64(),  # in the file: the first that matches a line has it
        match=LABELS,  # `*` stands for any text
        split=TEXT,  # cost, gpu_hours, shares
        shares=DOLLARS,  # numbers by team, of split `shares`
        from_time=SECOND,  # of the beginning of a line's charge period
        to_time=SECOND,
        is_removed=pa.uint8(),  # a newer file does not have it
        source=TEXT,  # the file
        time=MILLI,
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    COMMITMENTS: ("commitment_id",),
    CARBON_INTENSITIES: ("region", "hour"),
    ALLOCATION_RULES: ("rule_name",),
}
