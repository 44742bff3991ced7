"""Numbers of things in words."""

import pytest

from schemas.counting import how_many


@pytest.mark.parametrize(
    ("number", "nouns", "said"),
    [
        (0, ("line",), "0 lines"),
        (1, ("line",), "1 line"),
        (2_000, ("line",), "2,000 lines"),
        (1, ("entry", "entries"), "1 entry"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_one_thing_is_no_plural(number: int, nouns: tuple[str, ...], said: str) -> None:
    assert how_many(number, *nouns) == said
