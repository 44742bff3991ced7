"""Writes the file of all rules with their default settings, from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams.engine.rules.registry import JOB_RULES, LEDGER_RULES
from streams.engine.rules.rule import AlertRule

_HEAD: Final = """\
# The rules and their default settings. Copy what should be different into a file of your own, name it after what
# it is for, add `match`, and `trainfare rules publish FILE`. What a [[rule]] does not name stays as it is; of several that
# match a job the one with the most match fields wins.
"""
_ACROSS: Final = """
# The rules across jobs, judged by the hour on the stored ledger. Only team_burn takes `match` (team, owner, project,
# experiment), and team_ceiling (team): each [[rule]] of it is a limit of its own; of several of another rule the smallest name wins.
"""


def defaults_text() -> str:
    """The file (TOML)."""
    parts = [_HEAD, *(_rule(rule) for rule in JOB_RULES), _ACROSS.rstrip("\n") + "\n"]
    return "".join((*parts, *(_rule(rule) for rule in LEDGER_RULES.values())))


def _rule(rule: AlertRule) -> str:
    return "\n" + "".join(f"{line}\n" for line in _lines(rule))


def _lines(rule: AlertRule) -> Iterator[str]:
    yield "[[rule]]"
    yield f'name = "{rule.name}"'
    yield f'rule = "{rule.name}"'
    yield f"enabled = {str(rule.enabled).lower()}"
    yield f'severity = "{rule.severity}"'
    if rule.thresholds:
        yield "[rule.thresholds]"
    for name, threshold in rule.thresholds.items():
        yield f"{name} = {threshold.default:g}  # {threshold.what}"
