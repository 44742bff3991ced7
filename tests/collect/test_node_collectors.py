"""What the meter knows of collectors by their names."""

from __future__ import annotations

from schemas.validate_sources import NODE_PREFIXES
from streams.collect.registry import COLLECTORS


def test_collectors_of_one_node_are_known_by_their_names() -> None:
    assert {f"{name}@" for name, known in COLLECTORS.items() if known.of_one_node} == {*NODE_PREFIXES}
