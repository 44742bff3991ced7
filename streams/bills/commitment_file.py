"""Reads `commitments.toml`: what was bought for a time, used or not, and stores it as the whole list of commitments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

from schemas.commitment_tables import COMMITMENTS
from schemas.counting import how_many
from schemas.durations import HOUR_S
from schemas.units import NANO_PER_USD, USD_LIMIT
from streams.bills import values
from streams.bills.files import BillFile
from streams.bills.lists import ListLoaded
from streams.bills.loading import BillStore
from streams.bills.toml_lists import TomlEntry, load_whole_list, toml_entries
from streams.engine.pricing.ownership import owned_costs
from streams.errors import WrongUseError

SAVINGS_PLAN: Final = "savings_plan"
OWNED: Final = "owned"
KINDS: Final = ("reserved", SAVINGS_PLAN, "committed_use", "capacity_block", OWNED)
MATCH: Final = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")
ENTRIES_MAX: Final = 1_000
_TABLE: Final = "commitment"
_ID: Final = re.compile(r"[!-~][ -~]{0,254}", re.ASCII)
_GPUS_MAX: Final = 1_000_000
_YEARS_MAX: Final = 50
#: Of hours of all entries together: a view has a row for each.
_HOURS_MAX: Final = 20_000_000
_OF_OWNED: Final = ("salvage_usd", "kw", "pue", "usd_per_kwh", "staff_usd_per_year")
_FIELDS: Final = frozenset(
    (
        "id",
        "kind",
        "provider",
        "team",
        "from",
        "to",
        "gpus",
        "upfront_usd",
        "usd_per_hour",
        "match",
        *_OF_OWNED,
    )
)
_WANTED: Final = (
    "expected [[commitment]] tables with id, kind, from, to and what was bought (docs/commitments.md)"
)


def commitments_of(file: BillFile) -> list[dict[str, object]]:
    """The rows of a file, without when they were loaded.

    Raises:
        WrongUseError: It is no such file, or an entry is wrong; says which, and its line.
    """
    found: dict[object, dict[str, object]] = {}
    hours = 0
    for entry in toml_entries(file, _TABLE, "commitments", ENTRIES_MAX, _WANTED):
        row, length = _row(entry)
        if found.setdefault(row["commitment_id"], row) is not row:
            raise entry.fault("id", f"{values.shown(str(row['commitment_id']))} stands before it")
        hours += length
    if hours > _HOURS_MAX:
        raise WrongUseError(
            f"{file.name}: has {how_many(hours, 'hour')} of commitments, more than {_HOURS_MAX}; leave out those that are over"
        )
    return [*found.values()]


def _row(entry: TomlEntry) -> tuple[dict[str, object], int]:
    """The row of an entry, and how many hours it has."""
    entry.check_known(_FIELDS)
    name, kind = entry.text("id"), entry.text("kind")
    if _ID.fullmatch(name) is None:
        raise entry.fault("id", "expected the id that the provider or you gave it, e.g. ri-0a1b2c")
    if kind not in KINDS:
        raise entry.fault("kind", f"{values.shown(kind)}, expected one of {', '.join(KINDS)}")
    from_s, to_s = entry.hour_s("from"), entry.hour_s("to")
    if to_s <= from_s:
        raise entry.fault("to", "must be after from: a commitment of no hour pays for nothing")
    if to_s - from_s > _YEARS_MAX * 366 * 86_400:
        raise entry.fault("to", f"more than {_YEARS_MAX} years after from")
    hours = (to_s - from_s) // HOUR_S
    usd_per_hour = entry.amount("usd_per_hour")
    gpu_milli = _gpu_milli(entry, kind)
    cost = _cost_nano(entry, kind, hours)
    if kind == SAVINGS_PLAN and not 0 < usd_per_hour < USD_LIMIT:
        raise entry.fault(
            "usd_per_hour", f"a savings plan commits to dollars an hour: above 0, below {USD_LIMIT}"
        )
    if not 0 < cost < 10**27:
        raise entry.fault(
            "upfront_usd",
            "nothing is paid: give upfront_usd, usd_per_hour, or what owning costs"
            if cost <= 0
            else "too much to be a purchase",
        )
    match = entry.table("match", MATCH)
    row = {
        "commitment_id": name,
        "kind": kind,
        "provider": entry.text("provider"),
        "team": entry.text("team"),
        "from_time": datetime.fromtimestamp(from_s, UTC),
        "to_time": datetime.fromtimestamp(to_s, UTC),
        "cost_usd": Decimal(cost).scaleb(-9, context=values.CONTEXT),
        "gpu_milli": gpu_milli,
        "usd_per_hour": usd_per_hour if kind == SAVINGS_PLAN else Decimal(0),
        **{field: entry.text(field, match, f"match.{field}") for field in MATCH},
    }
    return row, hours


def _gpu_milli(entry: TomlEntry, kind: str) -> int:
    gpus = entry.amount("gpus")
    if kind == SAVINGS_PLAN:
        if entry.has("gpus"):
            raise entry.fault("gpus", "a savings plan commits to dollars, not to GPUs; leave it out")
        return 0
    if not 0 < gpus <= _GPUS_MAX or gpus * 1_000 % 1:
        raise entry.fault(
            "gpus", f"expected how many GPUs were bought: thousandths above 0, up to {_GPUS_MAX}"
        )
    return int(gpus * 1_000)


def _cost_nano(entry: TomlEntry, kind: str, hours: int) -> int:
    """All that is paid from begin to end, rounded half to even to a nano-dollar."""
    paid = Fraction(entry.amount("upfront_usd")) + Fraction(entry.amount("usd_per_hour")) * hours
    if kind != OWNED:
        for field in _OF_OWNED:
            if entry.has(field):
                raise entry.fault(field, f"is of what is owned; this is of kind {kind}")
        return round(paid * NANO_PER_USD)
    loss = paid - Fraction(entry.amount("salvage_usd"))
    if loss < 0:
        raise entry.fault("salvage_usd", "is more than was paid")
    pue = entry.amount("pue", "1", Decimal(1))
    if pue > 10:
        raise entry.fault("pue", "expected a ratio from 1 to 10")
    costs = owned_costs(
        loss,
        hours,
        kw=entry.amount("kw"),
        pue=pue,
        usd_per_kwh=entry.amount("usd_per_kwh"),
        staff_usd_per_year=entry.amount("staff_usd_per_year"),
    )
    return round(sum(costs, Fraction(0)) * NANO_PER_USD)


def load_commitments(store: BillStore, files: Sequence[BillFile], now_ms: int) -> list[ListLoaded]:
    """Store the commitments of one file as the whole list; one that it does not have is removed.

    Raises:
        WrongUseError: The file is wrong, or there are several; nothing is stored.
    """
    return load_whole_list(store, files, now_ms, COMMITMENTS, "commitment_id", commitments_of)
