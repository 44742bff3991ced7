"""Finds the controls that match a job without scanning those that cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")
G = TypeVar("G")


class Matching(Generic[T, G]):
    """Controls by their match fields; those with equal fields are combined into one.

    A lookup probes once per distinct set of fields, however many controls there are.
    """

    def __init__(
        self, controls: Iterable[tuple[Mapping[str, str], T]], gather: Callable[[list[T]], G]
    ) -> None:
        self._gather = gather
        self._by_fields: dict[tuple[str, ...], dict[tuple[str, ...], list[T]]] = {}
        self._gathered: dict[tuple[tuple[str, ...], tuple[str, ...]], G] = {}  # by (field names, values)
        for match, control in controls:
            fields = tuple(sorted(match))
            values = tuple([match[field] for field in fields])
            self._by_fields.setdefault(fields, {}).setdefault(values, []).append(control)

    def of(self, facts: Mapping[str, str]) -> Iterator[G]:
        """Yield the combined controls whose fields all match; `facts` has every field that a control may name."""
        for fields, by_values in self._by_fields.items():
            values = tuple([facts[field] for field in fields])
            controls = by_values.get(values)
            if controls is None:
                continue
            place = fields, values
            if place not in self._gathered:
                self._gathered[place] = self._gather(controls)
            yield self._gathered[place]


def may_match(match: Mapping[str, str], known: Mapping[str, str]) -> bool:
    """Whether all match fields may equal those of an alert; one that is not known of it may be what is asked."""
    return all(known.get(field, wanted) == wanted for field, wanted in match.items())
