"""The axes of charts: round numbers in the unit that stands beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.page.conftest import Watched

#: The largest value, its unit, whether values are whole, and what stands beside the axis.
AXES: Final = [
    (13_500, "bytes", False, ["0 B", "5 KiB", "10 KiB", "15 KiB"]),
    (900, "bytes", False, ["0 B", "500 B", "1,000 B"]),
    (3 * 2**40, "bytes", False, ["0 B", "1 TiB", "2 TiB", "3 TiB"]),
    (12, "seconds", False, ["0 s", "5 s", "10 s", "15 s"]),
    (110, "seconds", False, ["0 s", "1 min", "2 min"]),
    (600, "seconds", False, ["0 s", "5 min", "10 min"]),
    (9_000, "seconds", False, ["0 s", "1 h", "2 h", "3 h"]),
    (400_000, "seconds", False, ["0 s", "2 d", "4 d", "6 d"]),
    (1, "count", True, ["0", "1"]),
    (7, "count", True, ["0", "5", "10"]),
    (1, "count", False, ["0", "0.5", "1"]),
    (0.9, "ratio", False, ["0 %", "50 %", "100 %"]),
    (0, "bytes", False, ["0 B", "1 B"]),
]
_SHOWN: Final = """async (axes) => {
  const units = await import('/static/pages/dashboards/units.js');
  return axes.map(([top, unit, isWhole]) => units.ticks(top, 3, unit, isWhole).map((value) => units.axisText(value, unit)));
}"""


def test_no_value_of_an_axis_is_rounded(board: Callable[..., Watched]) -> None:
    shown = board().page.evaluate(_SHOWN, [axis[:3] for axis in AXES])
    assert shown == [axis[3] for axis in AXES]
