"""Reads `allocation.toml`: by which rules lines of bills that many use together are split, and stores it as the whole list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from schemas.allocation_rules import COST, GPU_HOURS, MATCHED, SHARES, TAG
from schemas.commitment_tables import ALLOCATION_RULES
from streams.bills import values
from streams.bills.files import BillFile
from streams.bills.lists import ListLoaded
from streams.bills.loading import BillStore
from streams.bills.toml_lists import TEXT_MAX, TomlEntry, load_whole_list, toml_entries

ENTRIES_MAX: Final = 100
SHARES_MAX: Final = 1_000
TAGS_MAX: Final = 10
#: Shares are numbers of so many decimals.
_SHARE_UNIT: Final = 10**9
_SHARE_LIMIT: Final = 10**9
_TABLE: Final = "allocation"
_FIELDS: Final = ("name", "match", "split", "from", "to")
_WANTED: Final = "expected [[allocation]] tables with name, match and split (docs/shared_lines.md)"
_SPLIT: Final = f'expected "{COST}", "{GPU_HOURS}", or shares by team, such as {{ vision = 60, speech = 40 }}'
#: Where a rule says no day: it holds for all lines that a bill may have.
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(2100, 1, 1, tzinfo=UTC)


def rules_of(file: BillFile) -> list[dict[str, object]]:
    """The rows of a file, without when they were loaded.

    Raises:
        WrongUseError: It is no such file, or a rule is wrong; says which, and its line.
    """
    found: dict[str, dict[str, object]] = {}
    for place, entry in enumerate(toml_entries(file, _TABLE, "allocation rules", ENTRIES_MAX, _WANTED)):
        entry.check_known(_FIELDS)
        name = entry.text("name")
        if not name:
            raise entry.fault("name", "expected what people call the rule, such as support")
        if name in found:
            raise entry.fault("name", f"{values.shown(name)} stands before it")
        from_time, to_time = _day(entry, "from", _FIRST), _day(entry, "to", _LAST)
        if to_time <= from_time:
            raise entry.fault("to", "must be after from: the rule would hold for no line")
        split, shares = _split(entry)
        found[name] = {
            "rule_name": name,
            "place": place,
            "match": _match(entry),
            "split": split,
            "shares": shares,
            "from_time": from_time,
            "to_time": to_time,
        }
    return [*found.values()]


def load_rules(store: BillStore, files: Sequence[BillFile], now_ms: int) -> list[ListLoaded]:
    """Store the rules of one file as the whole list; one that it does not have is removed.

    Raises:
        WrongUseError: The file is wrong, or there are several; nothing is stored.
    """
    return load_whole_list(store, files, now_ms, ALLOCATION_RULES, "rule_name", rules_of)


def _day(entry: TomlEntry, field: str, otherwise: datetime) -> datetime:
    return datetime.fromtimestamp(entry.hour_s(field), UTC) if entry.has(field) else otherwise


def _match(entry: TomlEntry) -> list[tuple[str, str]]:
    given = entry.table("match", (*MATCHED, "tag"))
    tags = given.get("tag", {})
    if not isinstance(tags, dict) or len(tags) > TAGS_MAX:
        raise entry.fault("match.tag", f'expected {TAGS_MAX} tags at most, such as tag.env = "shared"')
    texts: dict[str, Any] = {field: each for field, each in given.items() if field != "tag"}
    texts |= {f"{TAG}{key}": each for key, each in tags.items()}
    found = [(field, entry.text(field, texts, f"match.{field}")) for field in sorted(texts)]
    for field, text in found:
        if not text or len(field) > TEXT_MAX:
            raise entry.fault(
                f"match.{field}", "expected the text that a line has, in which * stands for any"
            )
    if not any(text.strip("*") for _, text in found):
        raise entry.fault(
            "match", "expected what sets the lines apart: this would take every line of every bill"
        )
    return found


def _split(entry: TomlEntry) -> tuple[str, list[tuple[str, Decimal]]]:
    given = entry.value("split")
    if given in (COST, GPU_HOURS):
        return str(given), []
    if not isinstance(given, dict) or not 0 < len(given) <= SHARES_MAX:
        raise entry.fault("split", _SPLIT)
    shares = []
    for team, share in sorted(given.items()):
        field = f"split.{team}"
        if not team or len(team) > TEXT_MAX or not team.isprintable():
            raise entry.fault(field, f"expected a team's name, of {TEXT_MAX} printable characters at most")
        try:
            found, _ = values.number(share)
        except values.BadValueError as fault:
            raise entry.fault(field, str(fault)) from None
        if not 0 < found < _SHARE_LIMIT or found * _SHARE_UNIT % 1:
            raise entry.fault(
                field, f"expected a share above 0 and below {_SHARE_LIMIT}, of nine decimals at most"
            )
        shares.append((team, found))
    return SHARES, shares
