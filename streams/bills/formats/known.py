"""Tells the format of a bill from its header, and of a file that is none says what to export instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from streams.bills.columns import COLUMNS, MANDATORY
from streams.bills.formats import aws, azure, gcp, oracle, plain, seats
from streams.bills.formats.record import BillFormat
from streams.bills.formats.record import plain as plain_name
from streams.errors import WrongUseError

FOCUS: Final = "focus"
FOCUS_TITLE: Final = "FOCUS"
#: The more particular one of two that a header may tell comes first.
FORMATS: Final = (
    aws.TWO,
    aws.LEGACY,
    gcp.DETAILED,
    azure.CUSTOMER,
    azure.ENTERPRISE,
    oracle.COSTS,
    seats.DATED,
    plain.DATED,
    plain.AMOUNTS,
)
#: As --format has them.
NAMES: Final = (FOCUS, *dict.fromkeys(each.name for each in FORMATS))
_FOCUS_HEADERS: Final = frozenset(
    plain_name(header) for column in COLUMNS if column.name in MANDATORY for header in column.headers
)
#: A header with so many of FOCUS's columns is one with a fault.
_FOCUS_LEAST: Final = 8


class _Unread(NamedTuple):
    """Files that people take for a bill."""

    signature: tuple[str, ...]
    seems: str
    instead: str


_UNREAD: Final = (
    _Unread(
        ("Billing account name", "Billing account ID", "Project name", "Service description"),
        "the cost table of Google Cloud's console",
        "export the table gcp_billing_export_resource_v1_... of BigQuery as JSON lines (detailed usage cost)",
    ),
    _Unread(
        ("InvoiceID", "PayerAccountId", "LinkedAccountId", "RecordType", "RecordId"),
        "AWS's former detailed billing report",
        "make an export of type CUR 2.0 or FOCUS in AWS's Data Exports",
    ),
    _Unread(
        ("FormatVersion", "v1.0"),
        "AWS's price list",
        "a bill is an export of type CUR 2.0 or FOCUS in AWS's Data Exports; prices load with `trainfare prices load`",
    ),
    _Unread(
        ("lineItem/intervalUsageStart", "usage/consumedQuantity"),
        "Oracle's usage report, which has no costs",
        "take the cost reports (reports/cost-csv or FOCUS Reports)",
    ),
    _Unread(
        ("UsageDate", "CostUSD"),
        "a download of Azure's cost analysis",
        "make an export of type cost and usage details (actual, amortized or FOCUS) in Cost Management",
    ),
    _Unread(
        ("MeterId", "UnitPrice", "MeterCategory", "PartNumber"),
        "Azure's price sheet",
        "make an export of type cost and usage details (actual, amortized or FOCUS) in Cost Management",
    ),
    _Unread(
        ("AccountOwnerId", "ResourceRate", "ExtendedCost"),
        "Azure's former usage details",
        "make an export of type cost and usage details (actual, amortized or FOCUS) in Cost Management",
    ),
    _Unread(
        ("Service", "Total costs($)"),
        "a download of AWS's Cost Explorer",
        "make an export of type CUR 2.0 or FOCUS in AWS's Data Exports",
    ),
)


def format_of(where: str, header: Sequence[str], asked: str) -> BillFormat | None:
    """The format of a file with this header; None: FOCUS.

    Args:
        where: The file and place, for messages.
        header: The names of its columns.
        asked: One of `NAMES`, that it is to be taken for; empty: the header tells.

    Raises:
        WrongUseError: The header is of no format that is read, or lacks columns of that asked for.
    """
    names = frozenset(map(plain_name, header))
    known = next((each for each in FORMATS if each.has_signature_in(names)), None)
    if asked == FOCUS or (not asked and _focus_columns(names) >= _FOCUS_LEAST):
        return None
    if asked:
        candidates = [each for each in FORMATS if each.name == asked]
        if not candidates:
            raise WrongUseError(f"--format {asked}: expected one of {', '.join(NAMES)}")
        found = next((each for each in candidates if each.has_signature_in(names)), None)
        if found is None:
            lacking = [name for name in candidates[0].signature if plain_name(name) not in names]
            seems = f"; it seems to be {known.title} (--format {known.name})" if known else ""
            raise WrongUseError(f"{where}: no {candidates[0].title}: column {lacking[0]} is missing{seems}")
        return found
    if known is None:
        raise WrongUseError(f"{where}: {_unread(header, names)}")
    return known


def _focus_columns(names: frozenset[str]) -> int:
    return len(_FOCUS_HEADERS & names)


def _unread(header: Sequence[str], names: frozenset[str]) -> str:
    for each in _UNREAD:
        if all(plain_name(name) in names for name in each.signature):
            return f"seems to be {each.seems}; {each.instead}"
    nearest = max(
        FORMATS,
        key=lambda each: sum(plain_name(name) in names for name in each.signature) / len(each.signature),
    )
    lacking = [name for name in nearest.signature if plain_name(name) not in names]
    if len(lacking) < len(nearest.signature):
        return f"is of no format that is read; nearest is {nearest.title}, of which {', '.join(lacking)} is missing"
    return (
        "is of no format that is read: expected a bill in FOCUS 1.0 to 1.3, AWS CUR, Google Cloud's detailed export, "
        "Azure's cost details, Oracle's cost report, or columns date,resource,usd"
    )
