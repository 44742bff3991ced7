"""Loads files of bills: all are checked to their ends first, then stored under a name, then made visible by one insert.

Two commands may load the same bill into one server at the same time: each looks after its insert whether the
other is there, and withdraws if it is. The later insert always finds the earlier one, so a bill never stands
twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import permutations
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from schemas.bill_tables import BILL_LINES, BILL_LOADS
from schemas.tables import SCHEMAS
from streams.bills.columns import CORRECTION, USD
from streams.bills.doubled import DaySums, Exported, doubled
from streams.bills.export_times import ExportSums, goes_on, is_later
from streams.bills.files import BillFile, lines_of
from streams.bills.formats.known import FOCUS
from streams.bills.limits import BATCH_MAX_BYTES, PERIODS_MAX
from streams.bills.lines import BillLine, rows_of
from streams.bills.parquet_lines import ParquetLines
from streams.bills.reading import NOTHING_ASKED, AskedFormat, Reading
from streams.bills.values import total
from streams.errors import WrongUseError

_AT_ONCE: Final = 20_000
LOADED: Final = "loaded"
REPLACED: Final = "replaced"


class BillStore(Protocol):
    """Where bills go."""

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Store rows."""
        ...

    def select(self, table: str) -> pa.Table:
        """All current rows."""
        ...


class PeriodKey(NamedTuple):
    """One bill of a provider: what a corrected file replaces."""

    invoice_issuer_name: str
    billing_account_id: str
    billing_period_start_s: int


@dataclass
class PeriodSums:
    """What a file holds of one bill."""

    billing_period_end_s: int
    lines: int = 0
    correction_lines: int = 0
    other_currency_lines: int = 0
    billed_usd: Decimal = Decimal(0)
    exports: ExportSums = field(default_factory=ExportSums)
    days: DaySums = field(default_factory=DaySums)


@dataclass
class Loaded:
    """One file: what it holds, and what became of it."""

    file: BillFile
    asked: AskedFormat
    load_id: str = ""
    digest: str = ""
    format: str = ""
    title: str = ""  # of the format
    kind: str = ""  # of the export, if its lines show which of the format's it is
    notes: list[str] = field(default_factory=list)
    rounded: int = 0
    fingerprints: list[int] = field(default_factory=list)  # of what was checked, by batch
    periods: dict[PeriodKey, PeriodSums] = field(default_factory=dict)
    is_new: bool = True
    replaces: list[str] = field(default_factory=list)  # the files whose bills it replaces

    @property
    def lines(self) -> int:
        """How many lines the file has."""
        return sum(each.lines for each in self.periods.values())

    @property
    def is_corrections(self) -> bool:
        """Whether it has nothing but corrections: such a file is added to what stands."""
        return all(each.lines == each.correction_lines for each in self.periods.values())


def load(
    store: BillStore,
    files: Sequence[BillFile],
    now_ms: int,
    *,
    replace: bool,
    asked: AskedFormat = NOTHING_ASKED,
) -> list[Loaded]:
    """Load the files; return what each holds.

    Raises:
        WrongUseError: A file is wrong, or a bill that stands would be doubled or (with `replace`) replaced in part, or
            another command loaded one of the bills at the same time.
    """
    checked = [_checked(file, asked) for file in files]
    ids = [each.load_id for each in checked]
    for each in checked:
        if ids.count(each.load_id) > 1:
            raise WrongUseError(f"{each.file.name}: its content is named twice")
    for older, newer in permutations(checked, 2):
        if any(
            is_later(newer.periods[key].exports, older.periods[key].exports)
            for key in older.periods.keys() & newer.periods.keys()
        ):
            raise WrongUseError(
                f"{newer.file.name}: is a later export of a bill that {older.file.name} has, too: load the later one alone"
            )
    if fault := doubled(Exported(each.file.name, each.title, each.kind, each.periods) for each in checked):
        raise WrongUseError(fault)
    _retired_by(checked, ids, store, replace=replace)  # refused before anything is stored
    new = [each for each in checked if each.is_new]
    if not new:
        return checked
    for each in new:
        _store_lines(store, each, now_ms)
    # Lines of a large file take their time to store: what stands may have changed.
    standing, retired = _retired_by(checked, ids, store, replace=replace)
    version = max([now_ms, *(_version(row) + 1 for row in standing)])
    visible = [row for each in new for row in _rows(each, now_ms, version)]
    _insert(store, [*visible, *({**row, "status": REPLACED, "version": version} for row in retired)])
    other = _other_of(new, ids, store)
    if other is not None:
        _insert(
            store,
            [
                *({**row, "status": REPLACED, "version": version + 1} for row in visible),
                *({**row, "status": LOADED, "version": version + 1} for row in retired),
            ],
        )
        raise WrongUseError(
            f"{_named(other)} was loaded at the same time from {other['file']}: nothing of this command is loaded; "
            "see `trainfare bills list`, and load again"
        )
    return checked


def _retired_by(
    checked: Sequence[Loaded], ids: Sequence[str], store: BillStore, *, replace: bool
) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """All rows that stand, and those of them that the files replace; says in each file whether it is new."""
    standing = store.select(BILL_LOADS).to_pylist()
    gone: dict[tuple[object, PeriodKey], dict[str, object]] = {}
    for each in checked:
        current = {
            _key(row) for row in standing if row["load_id"] == each.load_id and row["status"] == LOADED
        }
        each.is_new = current != set(each.periods)
        if each.is_new and not each.is_corrections:
            gone |= {
                (row["load_id"], _key(row)): row
                for row in _retired(each, checked, ids, standing, replace=replace)
            }
    return standing, list(gone.values())


def _other_of(new: Sequence[Loaded], ids: Sequence[str], store: BillStore) -> dict[str, object] | None:
    """A row of another file that stands for a bill of the new files, if there is one."""
    bills = {key for each in new if not each.is_corrections for key in each.periods}
    for row in store.select(BILL_LOADS).to_pylist():
        is_whole = row["lines"] != row["correction_lines"]
        if row["status"] == LOADED and is_whole and row["load_id"] not in ids and _key(row) in bills:
            return dict(row)
    return None


def _insert(store: BillStore, rows: Sequence[dict[str, object]]) -> None:
    token = "bill-loads-" + "-".join(sorted({f"{row['load_id']}.{row['version']}" for row in rows}))
    store.insert(BILL_LOADS, pa.Table.from_pylist(list(rows), schema=SCHEMAS[BILL_LOADS]), token)


def _version(row: dict[str, object]) -> int:
    return int(str(row["version"]))


def _checked(file: BillFile, asked: AskedFormat) -> Loaded:
    found = Loaded(file, asked)
    reading = Reading(asked)
    with file.open() as stream:
        lines = lines_of(file.name, stream, reading)
        for batch, fingerprint in _batches(lines):
            for line in batch:
                _count(found, line)
            found.fingerprints.append(fingerprint)
    found.digest = lines.digest
    found.format, found.title, found.notes = reading.format, reading.title, reading.notes
    found.kind = reading.findings.kind
    found.load_id = _load_id(found.digest, reading)
    if not found.periods:
        raise WrongUseError(f"{file.name}: has a header and no lines; nothing is loaded")
    return found


def _load_id(digest: str, reading: Reading) -> str:
    """What a file is known by: its content, and how it was read if that may be otherwise."""
    asked = reading.asked
    if reading.format == FOCUS and not asked.units_per_usd:
        return digest
    known = f"{digest} {reading.format} {asked.units_per_usd} {asked.issuer}"
    return hashlib.sha256(known.encode()).hexdigest()


def _count(found: Loaded, line: BillLine) -> None:
    key = _key_of(line)
    sums = found.periods.get(key)
    end_s = line.of("billing_period_end")
    if sums is None:
        if len(found.periods) >= PERIODS_MAX:
            raise WrongUseError(f"{found.file.name}: more than {PERIODS_MAX} bills in one file; split it")
        sums = found.periods[key] = PeriodSums(end_s)
    sums.billing_period_end_s = max(sums.billing_period_end_s, end_s)
    sums.lines += 1
    sums.exports.see(line)
    sums.days.see(line)
    sums.correction_lines += line.of("charge_class") == CORRECTION
    found.rounded += line.rounded
    if line.of("billing_currency") == USD:
        sums.billed_usd = total((sums.billed_usd, line.of("billed_cost")))
    else:
        sums.other_currency_lines += 1


def _key_of(line: BillLine) -> PeriodKey:
    return PeriodKey(
        line.of("invoice_issuer_name"), line.of("billing_account_id"), line.of("billing_period_start")
    )


def _key(row: dict[str, object]) -> PeriodKey:
    start = row["billing_period_start"]
    return PeriodKey(
        str(row["invoice_issuer_name"]),
        str(row["billing_account_id"]),
        int(start.timestamp()),  # type: ignore[attr-defined]  # an instant, by the schema
    )


def _retired(
    each: Loaded,
    checked: Sequence[Loaded],
    ids: Iterable[str],
    standing: Iterable[dict[str, object]],
    *,
    replace: bool,
) -> list[dict[str, object]]:
    """The standing rows of the bills that the file is about; files of the same command are parts of one bill."""
    found = [
        row
        for row in standing
        if row["status"] == LOADED and row["load_id"] not in set(ids) and _key(row) in each.periods
    ]
    # Corrections that came in files of their own stay beside the bill, unless it is to replace all that stands.
    whole = [row for row in found if row["lines"] != row["correction_lines"]]
    if not replace:
        found = whole
    for key in {_key(row): None for row in whole if not replace}:
        rows = [row for row in whole if _key(row) == key]
        exports = [other.periods[key].exports for other in checked if key in other.periods]
        if not goes_on(exports, rows):
            raise _stands(each, rows[0])
    each.replaces = sorted({str(row["file"]) for row in found})
    return found


def _stands(each: Loaded, row: dict[str, object]) -> WrongUseError:
    """The refusal of a file about a bill that is loaded: nobody knows whether it is the bill anew, or a part of it."""
    newest_s = each.periods[_key(row)].exports.newest_s
    dated = (
        ""
        if not newest_s
        else "not all of its lines as they were exported are in these files, or nothing newer; "
    )
    return WrongUseError(
        f"{each.file.name}: {_named(row)} is loaded already, by {row['file']} on {row['time']:%Y-%m-%d}; {dated}"
        "if this is a newer export of the whole bill, --replace puts it in its place; if it is a further part, load all parts in "
        "one command, with --replace; what came after the bill is loaded beside it as corrections (ChargeClass, or the category "
        "of a plain list), in a file of nothing else"
    )


def _named(row: dict[str, object]) -> str:
    return (
        f"the bill of {row['invoice_issuer_name']} for account {row['billing_account_id']} "
        f"from {row['billing_period_start']:%Y-%m-%d}"
    )


def _store_lines(store: BillStore, each: Loaded, version: int) -> None:
    """Store the lines as they were checked, and no other: a changed file must not leave lines under this name."""
    changed = WrongUseError(f"{each.file.name}: changed while it was read; load it again")
    with each.file.open() as stream:
        lines = lines_of(each.file.name, stream, Reading(each.asked))
        if isinstance(lines, ParquetLines) and lines.digest != each.digest:
            raise changed
        checked = iter(each.fingerprints)
        for batch, fingerprint in _batches(lines):
            if fingerprint != next(checked, None):
                raise changed
            token = f"bill-{each.load_id}-{batch[0].number}-{len(batch)}"
            store.insert(BILL_LINES, rows_of(each.load_id, batch, version), token)
    if lines.digest != each.digest:
        raise changed


def _batches(lines: Iterable[BillLine]) -> Iterator[tuple[list[BillLine], int]]:
    """Yield the lines in batches, each with a fingerprint of all lines up to its end, good within this process."""
    batch: list[BillLine] = []
    size = fingerprint = 0
    for line in lines:
        batch.append(line)
        size += line.text_chars
        fingerprint = hash((fingerprint, line.fingerprint))
        if len(batch) >= _AT_ONCE or size >= BATCH_MAX_BYTES:
            yield batch, fingerprint
            batch, size = [], 0
    if batch:
        yield batch, fingerprint


def _rows(each: Loaded, now_ms: int, version: int) -> list[dict[str, object]]:
    return [
        {
            "load_id": each.load_id,
            "invoice_issuer_name": key.invoice_issuer_name,
            "billing_account_id": key.billing_account_id,
            "billing_period_start": key.billing_period_start_s,
            "billing_period_end": sums.billing_period_end_s,
            "file": each.file.name.rpartition("/")[2],
            "format": each.format,
            "status": LOADED,
            "lines": sums.lines,
            "correction_lines": sums.correction_lines,
            "other_currency_lines": sums.other_currency_lines,
            "billed_usd": sums.billed_usd,
            "time": now_ms,
            "version": version,
            "exported": sums.exports.newest_s,
        }
        for key, sums in each.periods.items()
    ]
