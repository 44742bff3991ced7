"""An index from price contexts to the jobs and nodes that ask for them.

Knows names and contexts; whether a change matters to one of those found is decided by the caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from schemas.events import Component
from streams.engine.pricing.context import Context
from streams.engine.pricing.history import Form

#: Whether amounts are priced, and not time; and their context.
Ask = tuple[bool, Context]
_OF_AMOUNTS: Final = (str(Component.network), str(Component.storage))


class PriceIndex:
    """Names (of jobs, or of nodes) by what they ask prices for; each ask stands under all that it names."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[Ask]] = {}
        self._names: dict[Ask, set[str]] = {}
        self._by_field: dict[tuple[bool, int, str], set[Ask]] = {}

    @property
    def names(self) -> Collection[str]:
        """All that ask for anything."""
        return self._of.keys()

    def set_lookups(self, name: str, asks: frozenset[Ask]) -> None:
        """What the name asks for from now on, and nothing else."""
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
        """It asks for nothing any more."""
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
        """The names that ask for what any of these prices."""
        found: set[str] = set()
        for component, _, match in forms:
            of_amounts = component in _OF_AMOUNTS
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
    return ((of_amounts, position, value) for position, value in enumerate(context) if value is not None)
