"""Reads `commitments.toml`: what was bought for a time, used or not, and stores it as the whole list of commitments.

An entry is checked field by field, and money is a decimal from the text of the file on: nothing is a float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from schemas.commitment_tables import COMMITMENTS
from schemas.durations import HOUR_S
from schemas.tables import SCHEMAS
from schemas.units import NANO_PER_USD, USD_LIMIT
from streams.bills import values
from streams.bills.files import BillFile, refused_head
from streams.bills.lists import ListLoaded
from streams.bills.loading import BillStore
from streams.controls.file import TEXT_AT_MOST, parsed
from streams.controls.toml_lines import LocatedTable, located
from streams.engine.pricing.ownership import owned_costs
from streams.errors import WrongUseError

SAVINGS_PLAN: Final = "savings_plan"
OWNED: Final = "owned"
KINDS: Final = ("reserved", SAVINGS_PLAN, "committed_use", "capacity_block", OWNED)
MATCH: Final = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")
ENTRIES_MAX: Final = 1_000
_TABLE: Final = "commitment"
_ID: Final = re.compile(r"[!-~][ -~]{0,254}", re.ASCII)
_TEXT_MAX: Final = 255
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
_SAID_MAX: Final = 20
#: What may differ between two rows of the same commitment.
_LOADED: Final = ("is_removed", "source", "time", "version")


class _CommitmentFields:
    """The fields of one table, each checked once; a fault says its line."""

    def __init__(self, name: str, at: LocatedTable, given: Mapping[str, Any]) -> None:
        self._name, self._at, self._given = name, at, given

    def fault(self, field: str, reason: str) -> WrongUseError:
        """A refusal of a field."""
        where = f"{self._name} line {self._at.line_of(field)}"
        return WrongUseError(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")

    def has(self, field: str) -> bool:
        """Whether the file says it."""
        return field in self._given

    def text(self, field: str, given: Mapping[str, Any] | None = None, path: str = "") -> str:
        """A text; empty where the file says none."""
        found = (self._given if given is None else given).get(field, "")
        if not isinstance(found, str) or len(found) > _TEXT_MAX or not found.isprintable():
            raise self.fault(path or field, f"expected a text of {_TEXT_MAX} printable characters at most")
        return found

    def amount(self, field: str, usual: str = "0", at_least: Decimal = Decimal(0)) -> Decimal:
        """A number of nine decimals at most."""
        given = self._given.get(field, usual)
        try:
            found, is_rounded = values.number(given)
        except values.BadValueError as fault:
            raise self.fault(field, str(fault)) from None
        if found < at_least:
            raise self.fault(field, f"{values.shown(str(given))} is less than {at_least:f}")
        if is_rounded or found != found.quantize(Decimal(1).scaleb(-9), context=values.CONTEXT):
            raise self.fault(field, f"{values.shown(str(given))} has more than nine decimals")
        return found

    def hour_s(self, field: str) -> int:
        """A whole hour in seconds since 1970; a day is midnight UTC."""
        given = self._given.get(field)
        if isinstance(given, datetime):
            at = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        elif isinstance(given, date):
            at = datetime(given.year, given.month, given.day, tzinfo=UTC)
        else:
            raise self.fault(
                field, "expected a day such as 2026-01-01, or an instant such as 2026-01-01T00:00:00+01:00"
            )
        if not 2000 <= at.year < 2100:
            raise self.fault(field, f"expected a year from 2000 to 2099, got {at.year}")
        found = int(at.timestamp())
        if found % HOUR_S or at.microsecond:
            raise self.fault(
                field, "expected a whole hour of UTC: the ledger has hours, and commitments are used in them"
            )
        return found


def commitments_of(file: BillFile) -> list[dict[str, object]]:
    """The rows of a file, without when they were loaded.

    Raises:
        WrongUseError: It is no such file, or an entry is wrong; says which, and its line.
    """
    with file.open() as stream:
        refused_head(file.name, stream, b"[")
        data = stream.read(TEXT_AT_MOST + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise WrongUseError(f"{file.name}: byte {fault.start}: no UTF-8; {_WANTED}") from None
    content = parsed(file.name, text, "commitments", Decimal)
    tables = content.get(_TABLE)
    if unknown := sorted(content.keys() - {_TABLE}):
        raise WrongUseError(f"{file.name}: {values.shown(unknown[0])} is unknown; {_WANTED}")
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        raise WrongUseError(f"{file.name}: has no [[commitment]]; {_WANTED}")
    if len(tables) > ENTRIES_MAX:
        raise WrongUseError(f"{file.name}: more than {ENTRIES_MAX} commitments")
    lines = located(text)
    found: dict[object, dict[str, object]] = {}
    hours = 0
    for place, given in enumerate(tables):
        entry = _CommitmentFields(file.name, lines.of(_TABLE, place), given)
        row, length = _row(entry, given)
        if found.setdefault(row["commitment_id"], row) is not row:
            raise entry.fault("id", f"{values.shown(str(row['commitment_id']))} stands before it")
        hours += length
    if hours > _HOURS_MAX:
        raise WrongUseError(
            f"{file.name}: has {hours} hours of commitments, more than {_HOURS_MAX}; leave out those that are over"
        )
    return [*found.values()]


def _row(entry: _CommitmentFields, given: Mapping[str, Any]) -> tuple[dict[str, object], int]:
    """The row of an entry, and how many hours it has."""
    if unknown := sorted(given.keys() - _FIELDS):
        raise entry.fault(unknown[0], f"is unknown; expected {', '.join(sorted(_FIELDS))}")
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
    match = given.get("match", {})
    if not isinstance(match, dict):
        raise entry.fault("match", f"expected a table with fields of {', '.join(MATCH)}")
    if unknown := sorted(match.keys() - set(MATCH)):
        raise entry.fault(f"match.{unknown[0]}", f"is unknown; expected {', '.join(MATCH)}")
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


def _gpu_milli(entry: _CommitmentFields, kind: str) -> int:
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


def _cost_nano(entry: _CommitmentFields, kind: str, hours: int) -> int:
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
    if len(files) != 1:
        raise WrongUseError("name one file of commitments: it is the whole list")
    (file,) = files
    rows = commitments_of(file)
    standing = {str(row["commitment_id"]): row for row in store.select(COMMITMENTS).to_pylist()}
    alive = {name: row for name, row in standing.items() if not row["is_removed"]}
    version = max([now_ms, *(int(row["version"]) + 1 for row in standing.values())])
    loaded = {
        "source": file.name.rpartition("/")[2][-_TEXT_MAX:],
        "time": datetime.fromtimestamp(now_ms / 1_000, UTC),
        "version": version,
    }
    names = {row["commitment_id"] for row in rows}
    changed = [row for row in rows if _differs(alive.get(str(row["commitment_id"])), row)]
    gone = [row for name, row in sorted(alive.items()) if name not in names]
    written = [row | {"is_removed": 0} | loaded for row in changed] + [
        row | {"is_removed": 1} | loaded for row in gone
    ]
    if written:
        table = pa.Table.from_pylist(written, schema=SCHEMAS[COMMITMENTS])
        store.insert(COMMITMENTS, table, f"commitments-{version}-{len(written)}")
    restated = [row for row in changed if row["commitment_id"] in alive]
    said = [f"{row['commitment_id']}: changed" for row in restated] + [
        f"{row['commitment_id']}: removed" for row in gone
    ]
    return [
        ListLoaded(
            file.name, len(rows), len(changed) - len(restated), len(restated), len(gone), said[:_SAID_MAX]
        )
    ]


def _differs(stands: Mapping[str, object] | None, row: Mapping[str, object]) -> bool:
    return stands is None or any(stands[name] != value for name, value in row.items() if name not in _LOADED)
