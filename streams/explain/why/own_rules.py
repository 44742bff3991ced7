"""What is known of an alert of a rule by SQL: whether its statement named the subject, and whether the rule is still in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streams.engine.alerts.own_rule_records import PREFIX, is_own_rule
from streams.engine.rules.rule import from_threshold_on
from streams.explain.why.judged import JudgedRule, condition


def is_by_sql(rule: str) -> bool:
    """Whether an alert of this rule is of one by SQL."""
    return rule.startswith(PREFIX)


def by_statement(
    alert: Mapping[str, Any], records: Iterable[Mapping[str, Any]], *, is_firing: bool
) -> list[JudgedRule]:
    """The condition of its rule, as it was judged last.

    Args:
        alert: A row of `alerts`.
        records: Rows of `CONTROLS`.
        is_firing: Whether it fires at the instant.
    """
    name = str(alert["rule"]).removeprefix(PREFIX)
    value: Mapping[str, Any] = {}
    for row in records:
        if (row["kind"], row["name"]) == ("rule", name) and row["value"] and not row["removed"]:
            value = msgspec.json.decode(row["value"])
    is_in_force = is_own_rule(value) and value.get("enabled") is not False
    every = f", asked every {value['every']}" if is_in_force and value.get("every") else ""
    margin = from_threshold_on(f"rows of its statement about this{every}", float(is_firing), 1)
    return [condition(str(alert["rule"]), margin, holds=is_firing, enabled=is_in_force)]
