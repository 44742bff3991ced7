"""What a scheduler, or a machine, says of its GPUs, in the form that proposals are made of. It asks nothing itself.

Every name may be hostile: what is too long, or too much, is left out and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from schemas.escaping import visible
from schemas.wire_types import MAX_NAME_BYTES

#: Kinds of GPUs that are proposed prices for; no cluster has as many.
KINDS_AT_MOST: Final = 200
#: Names of one list (partitions, accounts) that are kept.
NAMES_AT_MOST: Final = 1_000
_SHOWN: Final = 3


class GpuKind(NamedTuple):
    """GPUs that are paid for alike; `fields` are their price fields, `gpu_type` as the scheduler names it."""

    fields: Mapping[str, str]
    gpus: int
    nodes: int

    @property
    def gpu_type(self) -> str:
        """The type in the scheduler's own words; empty where it names none."""
        return self.fields.get("gpu_type", "")


class Surroundings(NamedTuple):
    """All that is found; `options`: the tables of `collect.toml`, the first is that of the source of jobs."""

    source: str
    title: str
    kinds: tuple[GpuKind, ...]
    names: Mapping[str, tuple[str, ...]]
    options: Mapping[str, Mapping[str, Any]]
    notes: tuple[str, ...] = ()

    @property
    def types(self) -> dict[str, int]:
        """The GPU types, each with how many GPUs there are of it; the largest number first."""
        found: dict[str, int] = {}
        for kind in self.kinds:
            found[kind.gpu_type] = found.get(kind.gpu_type, 0) + kind.gpus
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


class KindCount:
    """Adds up GPUs by their price fields."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._found: dict[tuple[tuple[str, str], ...], GpuKind] = {}
        self._left_out = 0

    def add(self, fields: Mapping[str, str], gpus: int) -> None:
        """Add the GPUs of one node."""
        if not allowed(fields.values(), "price fields", self._notes):
            return
        kept = {name: value for name, value in fields.items() if value}
        key = tuple(sorted(kept.items()))
        known = self._found.get(key, GpuKind(kept, 0, 0))
        if key not in self._found and len(self._found) >= KINDS_AT_MOST:
            self._left_out += gpus
            return
        self._found[key] = known._replace(gpus=known.gpus + gpus, nodes=known.nodes + 1)

    def kinds(self) -> tuple[GpuKind, ...]:
        """All kinds, the largest first; what is left out becomes a note."""
        if self._left_out:
            self._notes.append(
                f"more than {KINDS_AT_MOST} kinds of GPUs: {self._left_out} GPUs of the rest have no proposal"
            )
        return tuple(sorted(self._found.values(), key=lambda kind: (-kind.gpus, sorted(kind.fields.items()))))


def allowed(names: Iterable[str], what: str, notes: list[str]) -> list[str]:
    """The names that an event may have, sorted; a note says which are left out.

    Returns nothing if one of several that belong together (`price fields`) may not be.
    """
    given = sorted(set(names))
    odd = [name for name in given if not _is_allowed(name)]
    if odd:
        shown = ", ".join(visible(name[:80]) for name in odd[:_SHOWN])
        notes.append(
            f"{what}: left out {len(odd)} that no event may have (too long, or with control characters): {shown}"
        )
    kept = [name for name in given if name and _is_allowed(name)]
    if len(kept) > NAMES_AT_MOST:
        notes.append(f"{what}: {len(kept)}, of which the first {NAMES_AT_MOST} are looked at")
    return [] if odd and what == "price fields" else kept[:NAMES_AT_MOST]


def _is_allowed(name: str) -> bool:
    try:
        return len(name.encode()) <= MAX_NAME_BYTES and (not name or name.isprintable())
    except UnicodeEncodeError:
        return False  # half of a character
