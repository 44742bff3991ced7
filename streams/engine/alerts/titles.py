"""What rules are called where people read: "Runaway burn" for `burn_fast`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams.engine.alerts import meter_rules
from streams.engine.rules.registry import ALL

TITLES: Final[Mapping[str, str]] = {**{rule.name: rule.title for rule in ALL}, **meter_rules.TITLES}


def title_of(rule: str) -> str:
    """Its title; a rule of a user's own has its name only."""
    return TITLES.get(rule, rule)
