"""When lines of a bill were exported, where the file says it line by line, and whether one export goes on from another.

Google Cloud's table only grows: each line keeps the instant at which it was appended. So a later export of a bill has all lines
of an earlier one, and these are known by their instants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from streams.bills.columns import USD
from streams.bills.formats.record import plain
from streams.bills.lines import BillLine
from streams.bills.values import BadValueError, instant_s, total

#: Of Google Cloud's table, and of its view in FOCUS.
_COLUMNS: Final = frozenset({"exporttime", "xexporttime"})
#: Instants of one bill in one file; a month of hourly appends has 750.
_INSTANTS_MAX: Final = 20_000


@dataclass
class ExportSums:
    """Lines of one bill by the instant of their export."""

    by_s: dict[int, tuple[int, int, Decimal]] = field(
        default_factory=dict
    )  # lines, of other currencies, dollars
    is_dated: bool = True  # every line says when

    def see(self, line: BillLine) -> None:
        """Count a line."""
        at_s = _exported_s(line) if self.is_dated else None
        if at_s is None or (at_s not in self.by_s and len(self.by_s) >= _INSTANTS_MAX):
            self.is_dated = False
            self.by_s.clear()
            return
        lines, others, usd = self.by_s.get(at_s, (0, 0, Decimal(0)))
        if line.of("billing_currency") == USD:
            usd = total((usd, line.of("billed_cost")))
        else:
            others += 1
        self.by_s[at_s] = (lines + 1, others, usd)

    @property
    def newest_s(self) -> int:
        """Of all lines; 0: not every line says when."""
        return max(self.by_s) if self.is_dated and self.by_s else 0


def goes_on(exports: Sequence[ExportSums], standing: Iterable[Mapping[str, Any]]) -> bool:
    """Whether files of one bill are a later export of the standing rows of it: with all of their lines, and newer ones.

    The lines that were exported by then are counted and added up; one that is missing or other is seen by it.
    """
    rows = list(standing)
    until_s = [int(row["exported"].timestamp()) for row in rows]
    if not (rows and all(until_s) and all(each.newest_s for each in exports)):
        return False
    newest_s = max(until_s)
    known = _added(sums for each in exports for at_s, sums in each.by_s.items() if at_s <= newest_s)
    stands = _added((row["lines"], row["other_currency_lines"], row["billed_usd"]) for row in rows)
    return max(each.newest_s for each in exports) > newest_s and known == stands


def is_later(newer: ExportSums, older: ExportSums) -> bool:
    """Whether a file has what another file of the same bill has, and newer lines: both are exports of the bill, not parts of one."""
    at_s = older.newest_s
    return (
        0 < at_s < newer.newest_s
        and all(
            newer.by_s.get(each_s) == sums for each_s, sums in older.by_s.items()
        )  # mostly ends with the first
        and sum(each_s <= at_s for each_s in newer.by_s) == len(older.by_s)
    )


def _added(sums: Iterable[tuple[int, int, Decimal]]) -> tuple[int, int, Decimal]:
    lines, others, usd = 0, 0, Decimal(0)
    for each in sums:
        lines, others, usd = lines + each[0], others + each[1], total((usd, each[2]))
    return lines, others, usd


def _exported_s(line: BillLine) -> int | None:
    for name, text in line.other:
        if plain(name) in _COLUMNS:
            try:
                return instant_s(text.removesuffix(" UTC"))
            except BadValueError:
                return None
    return None
