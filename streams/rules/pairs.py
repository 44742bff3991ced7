"""`python -m streams.rules.pairs`: which rule gives way to which, by the registry, as a page; with `--all` each pair of rules.

Two rules of which neither gives way to the other have causes of their own, so both may be sent at one time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from streams.engine.rules.registry import ALL, BURN_RULES, BY_NAME, JOB_RULES
from streams.engine.rules.rule import JOB, AlertRule

#: What becomes of a rule beside another one.
OPENS_NOTHING: Final = "opens nothing"
NOT_SENT: Final = "is not sent"
MUTED: Final = "is muted for people"
_INCIDENT: Final = "incident"
_PRICE_JUMP: Final = "price_jump"
_TEAM_BURN: Final = "team_burn"

_PAGE: Final = """# Pairs of rules

Which [rule](alerts.md) gives way to which, so that one cause is one message. Written from the rules by `make docs`; `python -m streams.rules.pairs --all` says it of each pair.

- **Opens nothing**: it opens no alert while one of the other rule about the same job, run, node or price is open, or was so shortly before that it may still see the same. Where each of two rules gives way to the other, the one that opens first is sent.
- **Is not sent**: its alert is stored and shown, and nobody is notified of it ([incidents](messages.md#incidents)). `incident` tells of alerts about jobs that have one cause, `price_jump` of burns that its price explains.
- **Beside them all**: tickets about jobs of a team are [muted](messages.md#inhibition) for people while `team_burn` pages about that team.
- **Two rules that no line names together** are about causes of their own: both may be sent at one time.

| rule | opens nothing beside | is not sent beside |
|---|---|---|
{lines}

Of {pairs:,} pairs of {rules} rules {related} are related, {mutual} of them by whichever comes first.
"""


class Yield(NamedTuple):
    """A rule gives way to another one."""

    rule: str
    other: str
    way: str


def yields() -> list[Yield]:
    """All of them, in the order of the rules, without what mutes whole teams."""
    return [
        Yield(rule.name, other, way)
        for rule in ALL
        for way, others in ((OPENS_NOTHING, rule.yields_to), (NOT_SENT, not_sent_beside(rule)))
        for other in others
    ]


def not_sent_beside(rule: AlertRule) -> tuple[str, ...]:
    """The rules whose messages tell of alerts of this one."""
    found = rule.inhibited_by
    if rule in JOB_RULES:  # they say what they share with others
        found += (_INCIDENT,)
    return (*found, _PRICE_JUMP) if rule in BURN_RULES else found


def between(one: str, other: str) -> list[str]:
    """What becomes of two rules beside each other, in sentences; none: they may stand together."""
    found = [
        f"{rule} {way} beside {beside}"
        for rule, beside, way in yields()
        if (rule, beside) in ((one, other), (other, one))
    ]
    for rule, beside in ((one, other), (other, one)):
        if beside == _TEAM_BURN and BY_NAME[rule].about == JOB:
            found.append(f"{rule} {MUTED} beside {beside} if that is a page and this is a ticket")
    return found


def mutual() -> set[frozenset[str]]:
    """Pairs of rules of which each opens nothing beside the other."""
    ways = {(rule, other) for rule, other, way in yields() if way == OPENS_NOTHING}
    return {frozenset(pair) for pair in ways if pair[::-1] in ways}


def page() -> str:
    """The page of docs/ (Markdown)."""
    lines = [
        f"| `{rule.name}` | {_names(rule.yields_to)} | {_names(not_sent_beside(rule))} |"
        for rule in ALL
        if rule.yields_to or not_sent_beside(rule)
    ]
    count = len(ALL)
    return _PAGE.format(
        lines="\n".join(lines),
        pairs=count * (count - 1) // 2,
        rules=count,
        related=len({frozenset(each[:2]) for each in yields()}),
        mutual=len(mutual()),
    )


def _names(rules: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in rules)


def every_pair() -> Iterator[str]:
    """A line for each pair of rules."""
    for one, other in combinations((rule.name for rule in ALL), 2):
        yield f"{one}, {other}: {'; '.join(between(one, other)) or 'may stand together'}"


if __name__ == "__main__":
    sys.stdout.write(page() if sys.argv[1:] != ["--all"] else "".join(f"{line}\n" for line in every_pair()))
