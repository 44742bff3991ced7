"""Tables against tables, with a difference that a person can read.

Two tables are equal or the test fails.
"""

from __future__ import annotations

from tests.oracle.model import Tables

PARTS = ("ledger", "hours", "usage", "unattributed", "gpus", "nodes", "node_hours", "jobs", "attempts")
MOST_SHOWN = 12


def differences(got: Tables, want: Tables, *, counts: bool = True) -> list[str]:
    """One sentence per row that differs; empty when all is equal."""
    found: list[str] = []
    for part in PARTS:
        mine, theirs = getattr(got, part), getattr(want, part)
        found += [
            f"{part} {key}: got {mine.get(key)}, want {theirs.get(key)}"
            for key in sorted(mine.keys() | theirs.keys(), key=repr)
            if mine.get(key) != theirs.get(key)
        ]
    if counts and got.counts != want.counts:
        found.append(f"counts: got {got.counts}, want {want.counts}")
    return found


def assert_same(got: Tables, want: Tables, *, counts: bool = True) -> None:
    """Fail with the first differences."""
    found = differences(got, want, counts=counts)
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:MOST_SHOWN])
