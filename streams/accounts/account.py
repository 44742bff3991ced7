"""What became of all that a poll read: each entry is metered, free by a rule, or not understood.

An entry is what the source lists: a job, a line, a pod, a GPU of an exporter. One of which a part is not understood is not
understood, whatever else was metered of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from schemas.escaping import visible
from streams.accounts.causes import FREE_RULES, REMEDIES, remedy_of

_EXAMPLES_AT_MOST: Final = 20
_EXAMPLE_CHARS: Final = 500
#: Before each example that is shown: more would hide the sums.
_ORDER: Final = ("first", "second", "third")


class EntryClass(StrEnum):
    """What became of an entry."""

    METERED = "metered"
    FREE = "free"
    NOT_UNDERSTOOD = "not_understood"


class AccountLine(NamedTuple):
    """Some entries of one class and reason; `explained` is what the rule is, or what mends it."""

    entry_class: EntryClass
    reason: str  # of metered ones empty
    entries: int
    examples: tuple[str, ...]  # up to three that differ
    explained: str


class Account:
    """The entries of one poll, or of a part of one."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[EntryClass, str]] = Counter()
        #: The first ones that differ, of each reason that is not understood.
        self.examples: dict[str, list[str]] = {}

    def metered(self, count: int = 1) -> None:
        """Count entries that are metered: their events are published, now or at an earlier poll."""
        self.counts[EntryClass.METERED, ""] += count

    def free(self, rule: str, count: int = 1) -> None:
        """Count entries that a rule of `FREE_RULES` makes free.

        Raises:
            KeyError: There is no such rule.
        """
        if rule not in FREE_RULES:
            raise KeyError(rule)
        self.counts[EntryClass.FREE, rule] += count

    def not_understood(self, reason: str, example: str, count: int = 1) -> None:
        """Count entries that are not understood, with what one of them is; `reason` is one of `REMEDIES`.

        Raises:
            KeyError: There is no such reason.
        """
        if reason not in REMEDIES:
            raise KeyError(reason)
        self.counts[EntryClass.NOT_UNDERSTOOD, reason] += count
        self._say(reason, visible(example[:_EXAMPLE_CHARS]))

    def refuse(self, reason: str, example: str) -> None:
        """Count one entry that was taken for metered as not understood: its events are not published."""
        if self.counts[EntryClass.METERED, ""]:
            self.counts[EntryClass.METERED, ""] -= 1
        self.not_understood(reason, example)

    def add(self, other: Account) -> None:
        """Add those of another part of the poll."""
        self.counts.update(other.counts)
        for reason, examples in other.examples.items():
            for example in examples:
                self._say(reason, example)

    def _say(self, reason: str, example: str) -> None:
        said = self.examples.setdefault(reason, [])
        if len(said) < _EXAMPLES_AT_MOST and example not in said:
            said.append(example)

    @property
    def read(self) -> int:
        """How many entries were read."""
        return self.counts.total()

    @property
    def reasons(self) -> dict[str, int]:
        """The entries that are not metered, by reason."""
        return {
            reason: count
            for (each, reason), count in self.counts.items()
            if each != EntryClass.METERED and count
        }

    @property
    def said(self) -> list[str]:
        """The first examples of each reason that is not understood."""
        return [example for examples in self.examples.values() for example in examples]

    def of_class(self, entry_class: EntryClass) -> dict[str, int]:
        """The entries of a class by reason."""
        return {
            reason: count
            for (each, reason), count in sorted(self.counts.items())
            if each == entry_class and count
        }

    def lines(self) -> Iterator[AccountLine]:
        """Yield all classes and reasons that have entries, what is not understood last."""
        for entry_class in EntryClass:
            for reason, count in self.of_class(entry_class).items():
                examples = tuple(self.examples.get(reason, ())[: len(_ORDER)])
                explained = REMEDIES.get(reason, "") if examples else FREE_RULES.get(reason, "")
                yield AccountLine(entry_class, reason, count, examples, explained)

    def __str__(self) -> str:
        """Return it as a person reads it."""
        return self.shown()

    def shown(self, collector: str = "", config: str = "") -> str:
        """Return it as a person reads it: a line with the sums, then one for each reason; see `remedy_of`."""
        sums = (f"{sum(self.of_class(each).values())} {each.replace('_', ' ')}" for each in EntryClass)
        text = [f"read {self.read}: {', '.join(sums)}"]
        for line in self.lines():
            if line.entry_class == EntryClass.FREE:
                text.append(f"free: {line.entries} {line.reason} ({line.explained})")
            elif line.entry_class == EntryClass.NOT_UNDERSTOOD:
                remedy = visible(remedy_of(line.reason, collector, config))
                examples = (f"{at}: {said}" for at, said in zip(_ORDER, line.examples, strict=False))
                text.append("; ".join((f"not understood: {line.entries} {line.reason}", *examples, remedy)))
        return "\n".join(text)


def metered(count: int) -> Account:
    """The account of entries that are all metered."""
    account = Account()
    account.metered(count)
    return account


class KeyedAccount:
    """An account of entries that a poll may see more than once: each counts once, as what was said last of it."""

    def __init__(self) -> None:
        self._said: dict[Hashable, tuple[EntryClass, str, str]] = {}

    def metered(self, key: Hashable) -> None:
        """Say that an entry is metered."""
        self._said[key] = (EntryClass.METERED, "", "")

    def free(self, key: Hashable, rule: str) -> None:
        """Say that a rule of `FREE_RULES` makes an entry free."""
        self._said[key] = (EntryClass.FREE, rule, "")

    def not_understood(self, key: Hashable, reason: str, example: str) -> None:
        """Say that an entry is not understood, for a reason of `REMEDIES`."""
        self._said[key] = (EntryClass.NOT_UNDERSTOOD, reason, example)

    def has(self, key: Hashable) -> bool:
        """Whether something was said of an entry."""
        return key in self._said

    def total(self, counted: set[int] | None = None) -> Account:
        """The sums; without the entries of `counted`, to which those that are summed are added.

        It has the hashes of keys, in 64 bits: what months have is held in memory.
        """
        account = Account()
        for key, (entry_class, reason, example) in self._said.items():
            if counted is not None:
                if hash(key) in counted:
                    continue
                counted.add(hash(key))
            if entry_class == EntryClass.NOT_UNDERSTOOD:
                account.not_understood(reason, example)
            elif entry_class == EntryClass.FREE:
                account.free(reason)
            else:
                account.metered()
        return account
