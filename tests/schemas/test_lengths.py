"""Lengths of time as people read them."""

import pytest

from schemas.lengths import duration


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 s"), (1, "< 0.1 s"), (50, "0.1 s"), (200, "0.2 s"), (949, "0.9 s"), (950, "1 s"), (1_499, "1 s"), (30_569, "31 s"),
        (59_499, "59 s"), (59_500, "1 min"), (90_600, "1 min 31 s"), (440_000, "7 min 20 s"), (3_599_500, "1 h"),
        (7_840_000, "2 h 11 min"), (86_399_999, "1 d"), (90_000_000, "1 d 1 h"), (864_000_000, "10 d"),
    ],
)  # fmt: skip
def test_a_length_is_rounded_half_up_to_its_last_unit(ms: int, shown: str) -> None:
    assert duration(ms) == shown
