"""What the answer of a rule by SQL says: subjects, their dollars per hour and sentences, none of which is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from streams.engine.alerts.own_rule_records import OwnRule
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.formatting import one_line, sentence

#: Of one rule at one instant, those with the most dollars per hour; the others are counted.
SUBJECTS_AT_MOST: Final = 100
COLUMNS: Final = ("subject_kind", "subject_name", "usd_per_hour", "summary")
#: Columns that say whose it is; without them a job's own are taken.
WHOSE: Final = ("owner", "team", "project")
_KIND: Final = re.compile(r"[a-z][a-z_]{0,31}")
#: Alerts about the meter, and messages that try a receiver, are its own.
_RESERVED: Final = frozenset({"meter", "test"})
_NAME_AT_MOST: Final = 256
_WRAPPED: Final = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)", re.DOTALL)
#: ClickHouse's types whose values are texts, and whose are numbers; a bare NULL is no dollars.
_TEXT: Final = re.compile(r"String|FixedString\(\d+\)|Enum.*", re.DOTALL)
_NUMBER: Final = re.compile(r"U?Int\d+|Float\d+|Decimal.*|Nothing", re.DOTALL)
_OF_ITSELF: Final = ("team", "owner", "project")


class OwnFindings(NamedTuple):
    """The findings of one answer, and why rows of it were left out."""

    found: list[LedgerFinding]
    left_out: list[str]


class OwnRuleError(ValueError):
    """An answer that says nothing: it has other columns."""


def answer_faults(types: Mapping[str, str]) -> list[str]:
    """What is wrong with an answer of these columns, ClickHouse's types by name, whatever its rows are."""
    found = _names_faults(types)
    for name in COLUMNS:
        bare = _bare(types.get(name, ""))
        if not bare:
            continue
        if name == "usd_per_hour":
            if not _NUMBER.fullmatch(bare):
                found.append(f"usd_per_hour is of the type {types[name][:64]}, expected a number")
        elif not _TEXT.fullmatch(bare):
            found.append(f"{name} is of the type {types[name][:64]}, expected String; write toString(...)")
    return found


def _names_faults(columns: Iterable[str]) -> list[str]:
    names = list(columns)
    found = [
        f"the answer has no column {name}, expected {', '.join(COLUMNS)}"
        for name in COLUMNS
        if name not in names
    ]
    found += [
        f"the answer has a column {one_line(name)[:64]}, expected {', '.join((*COLUMNS, *WHOSE))}"
        for name in names
        if name not in (*COLUMNS, *WHOSE)
    ]
    return found


def _bare(kind: str) -> str:
    while wrapped := _WRAPPED.fullmatch(kind):
        kind = wrapped[1]
    return kind


def own_findings(rule: OwnRule, at_ms: int, columns: Mapping[str, Sequence[object]]) -> OwnFindings:
    """The findings of an answer.

    Raises:
        OwnRuleError: A column is missing, or another one is there.
    """
    if faults := _names_faults(columns):
        raise OwnRuleError(faults[0])
    names = list(columns)
    found: dict[tuple[str, str], LedgerFinding] = {}
    left_out: list[str] = []
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(names, values, strict=True))
        try:
            each = _finding(rule, at_ms, row)
        except OwnRuleError as fault:
            left_out.append(str(fault))
            continue
        key = each.subject_kind, each.subject_name
        if key not in found or found[key].usd_nano_per_hour < each.usd_nano_per_hour:
            found[key] = each
    ordered = sorted(found.values(), key=lambda each: (-each.usd_nano_per_hour, each.subject))
    if len(ordered) > SUBJECTS_AT_MOST:
        left_out.append(f"{len(ordered) - SUBJECTS_AT_MOST} subjects beyond {SUBJECTS_AT_MOST}")
    return OwnFindings(ordered[:SUBJECTS_AT_MOST], left_out)


def _finding(rule: OwnRule, at_ms: int, row: Mapping[str, object]) -> LedgerFinding:
    kind, name, said = (row[column] for column in ("subject_kind", "subject_name", "summary"))
    if not isinstance(kind, str) or not _KIND.fullmatch(kind) or kind in _RESERVED:
        raise OwnRuleError("a subject_kind that is no word of small letters, as job, team or node")
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_AT_MOST or "\0" in name:
        raise OwnRuleError(f"a subject_name that is no text of 1 to {_NAME_AT_MOST} characters")
    if not isinstance(said, str) or not said.strip():
        raise OwnRuleError("a summary that is no text, or an empty one")
    nano = _nano(row["usd_per_hour"])
    owner, team, project = (_whose(row, each, kind, name) for each in WHOSE)
    text = one_line(" ".join(said.split()))
    return LedgerFinding(
        rule.rule,
        rule.severity,
        kind,
        name,
        at_ms,
        sentence(lambda _: text),
        rule.statement(at_ms),
        usd_nano_per_hour=nano,
        owner=owner,
        team=team,
        project=project,
    )


def _whose(row: Mapping[str, object], column: str, kind: str, name: str) -> str:
    if kind == column and column in _OF_ITSELF:
        return name
    given = row.get(column)
    return given[:_NAME_AT_MOST] if isinstance(given, str) and "\0" not in given else ""


def _nano(given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int | float | Decimal):
        raise OwnRuleError("a usd_per_hour that is no number")
    value = Decimal(repr(given)) if isinstance(given, float) else Decimal(given)
    if not value.is_finite():
        raise OwnRuleError("a usd_per_hour that is not finite")
    return min(max(int(min(max(value, Decimal(0)), Decimal(10**12)).scaleb(9)), 0), MAX_COST_NANO)
