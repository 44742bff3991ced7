"""Writes the tables of rules in docs/ from the rules, so that the pages always agree with what is judged."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from streams.engine.rules.burn_rule import span_of
from streams.engine.rules.job_view import JobRule
from streams.engine.rules.registry import ALL, BURN_RULES, JOB_RULES, LEDGER_RULES
from streams.engine.rules.rule import PAGE, PAGE_FROM, TICKET_FROM, AlertRule

_RUNBOOK: Final = "runbook.md"
_END: Final = "\n<!-- end of the table -->"


def tables() -> Mapping[str, str]:
    """Each table (Markdown) by the name in the comment before it."""
    burn = (
        (
            _named(rule),
            _severity(rule),
            f">= {rule.long_ratio:g} over {span_of(rule.long_ms)}",
            f">= {rule.short_ratio:g} over {span_of(rule.short_ms)}",
            f"{rule.clear_ratio:g}",
        )
        for rule in BURN_RULES
    )
    conditions = ((_named(rule), _severity(rule), rule.holds) for rule in JOB_RULES[len(BURN_RULES) :])
    across = ((_named(rule), rule.severity, rule.about, rule.holds) for rule in LEDGER_RULES.values())
    return {
        "burn rules": _table(
            (
                "rule, and its title in messages",
                "severity",
                "opens at a ratio",
                "and a ratio",
                "clears when the second is below",
            ),
            burn,
        ),
        "condition rules": _table(("rule, and its title", "severity", "holds"), conditions),
        "rules across jobs": _table(("rule, and its title", "severity", "subject", "holds"), across),
        "titles": _table(("message", "rule", "what to do"), _titles()),
    }


def render(page: str) -> str:
    """The page with its tables written anew.

    Raises:
        ValueError: It has no table, or one without an end.
    """
    has_any = False
    for name, table in tables().items():
        before, begin, rest = page.partition(begin_of(name))
        if not begin:
            continue
        _, end, after = rest.partition(_END)
        if not end:
            raise ValueError(f"no comment behind the table of {name}")
        page, has_any = f"{before}{begin}{table}{end}{after}", True
    if not has_any:
        raise ValueError("no comment before a table of rules")
    return page


def begin_of(name: str) -> str:
    """The comment before a table."""
    return f"<!-- table of {name}: make docs -->\n"


def _named(rule: AlertRule) -> str:
    """The name of a rule, and the title that is all of it that a message has."""
    return f"`{rule.name}` {rule.title}"


def _titles() -> Iterator[tuple[str, str, str]]:
    """Yield each rule whose title is no heading of the runbook, with where to read what to do."""
    for rule in sorted(ALL, key=lambda each: each.title):
        page, _, heading = rule.runbook.partition("#")
        if (page, heading) == (_RUNBOOK, rule.title.lower().replace(" ", "-")):
            continue
        place = f"#{heading}" if page == _RUNBOOK else rule.runbook
        yield rule.title, f"`{rule.name}`", f"[{heading.replace('-', ' ').replace('_', ' ')}]({place})"


def _severity(rule: JobRule) -> str:
    if PAGE_FROM not in rule.thresholds:
        return rule.severity
    least = rule.thresholds.get(TICKET_FROM)
    from_least = f" from ${least.default:g}/h" if least else ""
    page_usd = rule.thresholds[PAGE_FROM].default
    return f"{rule.severity}{from_least}, {PAGE} from ${page_usd:g}/h" if page_usd else PAGE


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    text = [f"| {' | '.join(line)} |" for line in lines]
    text[1] = f"|{'|'.join('---' for _ in head)}|"
    return "\n".join(text)


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
