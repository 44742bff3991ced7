"""Tells files of one command that have a bill twice from files that are parts of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

from schemas.durations import DAY_S
from streams.bills.lines import BillLine

_WORD: Final = 2**64 - 1


@dataclass
class DaySums:
    """The lines of one bill in one file by the day on which their charge period begins, in whatever order they stand.

    The hashes are good within this process.
    """

    by_day: dict[int, tuple[int, int, bool]] = field(
        default_factory=dict
    )  # lines, sum of their hashes, whether one has a cost

    def see(self, line: BillLine) -> None:
        """Count a line."""
        day = line.of("charge_period_start") // DAY_S
        lines, hashes, has_cost = self.by_day.get(day, (0, 0, False))
        has_cost = has_cost or bool(line.of("billed_cost") or line.of("effective_cost"))
        self.by_day[day] = (lines + 1, (hashes + line.content_hash) & _WORD, has_cost)


class BillOfFile(Protocol):
    """What a file has of one bill."""

    @property
    def days(self) -> DaySums:
        """Its lines by day."""
        ...


class Exported(NamedTuple):
    """A file: its name, its format, which of the format's kinds of export it shows to be, and the bills in it."""

    name: str
    title: str
    kind: str  # empty: its lines are the same in all
    bills: Mapping[Any, BillOfFile]  # by what names a bill


def doubled(files: Iterable[Exported]) -> str:
    """Which files have a bill twice; empty: none has.

    Parts of a bill are of one kind of export, and a day that two of them have is not line by line the same.
    """
    firsts: dict[Hashable, Exported] = {}
    seen: dict[Hashable, str] = {}
    for each in files:
        for key, bill in each.bills.items():
            first = firsts.setdefault(key, each)
            if first.title != each.title or (first.kind and each.kind and first.kind != each.kind):
                return (
                    f"{each.name}: has a bill as {_named(each)} that {first.name} has as {_named(first)}, so it would count twice: "
                    "load one of them"
                )
            if not first.kind:
                firsts[key] = each
            for day, sums in bill.days.by_day.items():
                if not sums[2]:
                    continue
                other = seen.setdefault((key, day, sums), each.name)
                if other != each.name:
                    return (
                        f"{each.name}: has the same lines of {datetime.fromtimestamp(day * DAY_S, UTC):%Y-%m-%d} as {other}, so they would "
                        "count twice: load the newer file alone; charges that are alike but two go into one file"
                    )
    return ""


def _named(file: Exported) -> str:
    return ", ".join(filter(None, (file.title, file.kind)))
