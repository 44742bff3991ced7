"""Reads files of carbon intensities, `hour,region,g_per_kwh`, and stores them; a newer file restates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

import pyarrow as pa

from schemas.commitment_tables import CARBON_INTENSITIES
from schemas.durations import HOUR_S
from schemas.tables import SCHEMAS
from streams.bills import values
from streams.bills.csv_lines import csv_records
from streams.bills.files import BillFile, refused_head
from streams.bills.lists import ListLoaded
from streams.bills.loading import BillStore
from streams.bills.text_lines import TextLines
from streams.errors import WrongUseError

_COLUMNS: Final = ("hour", "region", "g_per_kwh")
#: 100 regions of a year are 876,000.
ENTRIES_MAX: Final = 2_000_000
#: Coal is 1,000 g or so; a file in kilograms or per MWh is seen by what is out of this.
_G_PER_KWH_MAX: Final = 10_000
_TEXT_MAX: Final = 255
_SAID_MAX: Final = 20


def intensities_of(file: BillFile) -> dict[tuple[str, int], Decimal]:
    """Grams by region and hour (seconds since 1970) of a file.

    Raises:
        WrongUseError: It is no such file, or a line is wrong; it is named.
    """
    found: dict[tuple[str, int], Decimal] = {}
    with file.open() as stream:
        refused_head(file.name, stream)
        rows = csv_records(TextLines(file.name, stream))
        number, header = next(rows, (1, []))
        names = [name.strip().lower() for name in header]
        if not set(_COLUMNS) <= set(names):
            raise WrongUseError(
                f"{file.name} line {number}: is no file of carbon intensities; expected columns {','.join(_COLUMNS)}"
            )
        at = [names.index(name) for name in _COLUMNS]
        for number, cells in rows:
            where = f"{file.name} line {number}"
            hour, region, grams = (cells[place].strip() for place in at)
            key = region, _hour(where, hour)
            if not region or len(region) > _TEXT_MAX or not region.isprintable():
                raise WrongUseError(
                    f"{where}: region: expected the region as jobs name it, of {_TEXT_MAX} characters at most"
                )
            if found.setdefault(key, value := _grams(where, grams)) != value:
                raise WrongUseError(f"{where}: another intensity of {region} in that hour stands before it")
            if len(found) > ENTRIES_MAX:
                raise WrongUseError(f"{file.name}: more than {ENTRIES_MAX} intensities; split it")
    if not found:
        raise WrongUseError(f"{file.name}: has no intensities")
    return found


def load_intensities(store: BillStore, files: Sequence[BillFile], now_ms: int) -> list[ListLoaded]:
    """Store the intensities of files; one that stands otherwise is restated.

    Raises:
        WrongUseError: A file is wrong; nothing of any is stored.
    """
    given = [(file, intensities_of(file)) for file in files]
    standing = {
        (str(row["region"]), int(row["hour"].timestamp())): (row["g_per_kwh"], int(row["version"]))
        for row in store.select(CARBON_INTENSITIES).to_pylist()
    }
    version = max([now_ms, *(each[1] + 1 for each in standing.values())])
    rows: dict[tuple[str, int], dict[str, object]] = {}
    loaded = []
    for file, entries in given:
        changed = [key for key, grams in entries.items() if key in standing and standing[key][0] != grams]
        new = [key for key in entries if key not in standing]
        said = [
            f"{region} {_iso(hour_s)}: {values.trimmed(standing[region, hour_s][0])} becomes {values.trimmed(entries[region, hour_s])} g/kWh"
            for region, hour_s in sorted(changed)[:_SAID_MAX]
        ]
        for region, hour_s in (*new, *changed):
            grams = entries[region, hour_s]
            standing[region, hour_s] = grams, version
            rows[region, hour_s] = {
                "region": region,
                "hour": datetime.fromtimestamp(hour_s, UTC),
                "g_per_kwh": grams,
                "source": file.name.rpartition("/")[2][-_TEXT_MAX:],
                "time": datetime.fromtimestamp(now_ms / 1_000, UTC),
                "version": version,
            }
        loaded.append(ListLoaded(file.name, len(entries), len(new), len(changed), 0, said))
    if rows:
        table = pa.Table.from_pylist([*rows.values()], schema=SCHEMAS[CARBON_INTENSITIES])
        store.insert(CARBON_INTENSITIES, table, f"carbon-{version}-{len(rows)}")
    return loaded


def _iso(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%MZ}"


def _hour(where: str, cell: str) -> int:
    try:
        found = values.instant_s(cell)
    except (values.BadValueError, ValueError):
        raise WrongUseError(
            f"{where}: hour: {values.shown(cell)} is no instant such as 2026-10-01T12:00Z"
        ) from None
    if found % HOUR_S:
        raise WrongUseError(f"{where}: hour: {values.shown(cell)} is no whole hour (UTC)")
    return found


def _grams(where: str, cell: str) -> Decimal:
    try:
        found, _ = values.number(cell)
    except values.BadValueError as fault:
        raise WrongUseError(f"{where}: g_per_kwh: {fault}") from None
    if not 0 <= found <= _G_PER_KWH_MAX:
        raise WrongUseError(
            f"{where}: g_per_kwh: {values.shown(cell)}, expected grams from 0 to {_G_PER_KWH_MAX}"
        )
    return found.quantize(Decimal(1).scaleb(-9))
