"""Rules of finance for lines that many use together, such as support or a shared database: who bears them, in which parts.

A rule takes whole lines, before resources, tags and accounts are looked at; the first that matches has the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

COST: Final = "cost"
GPU_HOURS: Final = "gpu_hours"
SHARES: Final = "shares"
#: What a rule compares of a line, beside its tags.
MATCHED: Final = {
    "account": "l.account",
    "provider": "toString(l.provider_name)",
    "service": "toString(l.service_name)",
    "category": "toString(l.charge_category)",
    "description": "l.charge_description",
    "sku": "l.sku_id",
    "region": "toString(l.region_id)",
    "resource": "l.resource",
}
#: Before the key of a tag.
TAG: Final = "tag."


class AllocationRule(msgspec.Struct, frozen=True):
    """How lines that match are split: among jobs by cost or GPU time, or among teams in fixed shares."""

    name: str
    match: dict[str, str]  # by the names of `MATCHED`, and `tag.KEY`; `*` stands for any text
    split: str
    shares: dict[str, int]  # by team, of `SHARES` alone
    from_s: int  # of the beginning of the charge period, in seconds since 1970
    to_s: int


def rule_sql(rules: Sequence[AllocationRule]) -> tuple[str, dict[str, Any]]:
    """SQL for the place of the first rule that matches a line `l`, counted from 1 (0: none), and what is bound in it."""
    cases: list[str] = []
    bound: dict[str, Any] = {}
    for at, rule in enumerate(rules):
        start = "toInt64(toUnixTimestamp(l.charge_period_start))"
        terms = [f"{start} >= {{r{at}_from:Int64}} AND {start} < {{r{at}_to:Int64}}"]
        bound |= {f"r{at}_from": rule.from_s, f"r{at}_to": rule.to_s}
        for number, (field, pattern) in enumerate(sorted(rule.match.items())):
            column = MATCHED.get(field)
            if column is None:
                column = f"l.tags[{{r{at}_key{number}:String}}]"
                bound[f"r{at}_key{number}"] = field.removeprefix(TAG)
            terms.append(f"{column} ILIKE {{r{at}_{number}:String}}")
            bound[f"r{at}_{number}"] = _pattern(pattern)
        cases.append(f"{' AND '.join(terms)}, {at + 1}")
    return (f"multiIf({', '.join(cases)}, 0)" if cases else "0"), bound


def _pattern(given: str) -> str:
    """What ILIKE takes: only `*` stands for any text."""
    for each in ("\\", "%", "_"):
        given = given.replace(each, "\\" + each)
    return given.replace("*", "%")
