"""An index from price contexts to the jobs and nodes that look them up.

It knows names and contexts; the caller decides whether a change matters to a name found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from schemas.events import Component
from streams.engine.pricing.context import LABEL, Context
from streams.engine.pricing.history import Form, matching

#: (whether amounts are priced rather than time, their context).
Ask = tuple[bool, Context]
_OF_AMOUNTS: Final = (str(Component.network), str(Component.storage))


class PriceIndex:
    """Names (of jobs, or of nodes) by their price lookups; each lookup is indexed by all fields that it names."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[Ask]] = {}
        self._names: dict[Ask, set[str]] = {}
        self._by_field: dict[tuple[bool, int, str], set[Ask]] = {}

    @property
    def names(self) -> Collection[str]:
        """All names with a lookup."""
        return self._of.keys()

    def set_lookups(self, name: str, asks: frozenset[Ask]) -> None:
        """Replace the lookups of a name."""
        known = self._of.get(name, frozenset())
        if asks == known:
            return
        for ask in known - asks:
            self._leave(ask, name)
        for ask in asks - known:
            names = self._names.get(ask)
            if names is None:
                names = self._names[ask] = set()
                for field in _fields(ask):
                    self._by_field.setdefault(field, set()).add(ask)
            names.add(name)
        self._of[name] = asks

    def drop(self, name: str) -> None:
        """Remove a name."""
        for ask in self._of.pop(name, ()):
            self._leave(ask, name)

    def _leave(self, ask: Ask, name: str) -> None:
        names = self._names[ask]
        names.discard(name)
        if names:
            return
        del self._names[ask]
        for field in _fields(ask):
            asks = self._by_field[field]
            asks.discard(ask)
            if not asks:
                del self._by_field[field]

    def asking(self, forms: Iterable[Form]) -> set[str]:
        """The names whose lookups match any of these price forms."""
        found: set[str] = set()
        for component, _, named in forms:
            of_amounts = component in _OF_AMOUNTS
            match = [each for each in named if each[0] != LABEL]  # lookups do not say which labels a job has
            if not match:
                found.update(*(names for ask, names in self._names.items() if ask[0] == of_amounts))
                continue
            nothing: set[Ask] = set()
            fewest, *others = sorted(
                (self._by_field.get((of_amounts, *at), nothing) for at in match), key=len
            )
            for ask in fewest.intersection(*others):
                found |= self._names[ask]
        return found


def _fields(ask: Ask) -> Iterable[tuple[bool, int, str]]:
    of_amounts, context = ask
    return ((of_amounts, *matching(at, value)) for at, value in enumerate(context) if value is not None)
