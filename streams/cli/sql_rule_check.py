"""Has rules by SQL checked before they are published, by the guard that a worker asks when it runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from schemas.escaping import visible

if TYPE_CHECKING:
    from schemas.events import ControlEvent
    from streams.config.settings import Settings


def sql_faults(rules: Iterable[tuple[ControlEvent, Callable[[str], str]]], settings: Settings) -> list[str]:
    """A line for each rule by SQL that a worker would refuse; where nobody can say, that is said on stderr.

    `rules`: controls, and what makes a line of what is wrong with one.
    """
    from streams.controls.sql_rules import is_sql_rule, sql_rule_faults

    found = [each for each in rules if is_sql_rule(each[0])]
    if not found:
        return []
    from sinks.target import Embedded
    from streams.cli.reading import server_of

    clickhouse = settings.clickhouse
    embedded = (
        None
        if clickhouse.data_dir is None
        else Embedded(data_dir=clickhouse.data_dir, database=clickhouse.database)
    )
    checked = sql_rule_faults(found, embedded or server_of(clickhouse))
    if checked.note:
        sys.stderr.write(f"trainfare: {visible(checked.note)}\n")
    return checked.faults
