"""The cells of idle cost do not depend on the parts in which they were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random

import pytest

from schemas.tables import JOB_MINUTES, NODE_HOURS, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from streams.costs import day_parts
from streams.costs.answer import cost_steps
from streams.costs.day_parts import answered
from streams.costs.request import request_of
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded

QUESTIONS: tuple[dict[str, list[str]], ...] = (
    {},
    {"by": ["node"]},
    {"by": ["node"], "limit": ["3"]},
    {"by": ["cluster", "team"], "per": ["week"]},
    {"by": ["node"], "per": ["day"]},
    {"by": ["node"], "per": ["hour"], "limit": ["7"]},
    {"by": ["cluster"], "per": ["month"], "from": ["2026-03-03T05:00:00Z"], "to": ["2026-03-09T23:00:00Z"]},
    {"per": ["day"], "compare": ["previous"]},
    {"by": ["cluster"], "where": ["team=red"]},
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    """Two weeks of five nodes, some hours of which have no price."""
    draw = Random(1)
    made: dict[str, list[dict[str, object]]] = {NODE_MINUTES: [], JOB_MINUTES: [], NODE_HOURS: []}
    for number in range(70):
        node, day, clock = number % 5, 1 + number // 5, draw.randrange(24)
        at, minute = f"2026-03-{day:02} {clock:02}", draw.randrange(60)
        cost, paid = (Decimal(draw.randrange(10**9)).scaleb(-9) for _ in range(2))
        key = {"node": f"n{node}", "quantity": 1}
        made[NODE_MINUTES].append(
            key | {"minute": instant(f"{at}:{minute:02}"), "cost_usd": cost, "unit": "gpu_milli_ms"}
        )
        made[JOB_MINUTES].append(key | {"minute": instant(f"{at}:{minute:02}"), "cost_usd": paid})
        known = {"node": f"n{node}", "cluster": f"c{node % 2}", "team": ("red", "blue")[node % 3 == 0]}
        gpus = {"paid_ms": 60_000, "gpu_milli_ms": 10, "unpriced_gpu_milli_ms": draw.randrange(10)}
        made[NODE_HOURS].append({"hour": instant(f"{at}:00"), **known, **gpus})
    with embedded(tmp_path_factory.mktemp("parts") / "meter") as opened:
        for table, values in made.items():
            opened.insert(table, rows(table, *values), table)
        yield opened


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_cells_are_the_same_in_any_parts(
    store: ClickHouseStore, question: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of({"metric": ["m3"], **question})
    whole = answered(cost_steps(request), store.ask)
    assert whole.rows
    for most in (1, 9, 17):
        monkeypatch.setattr(day_parts, "NODE_HOURS_MAX", most)
        cut = answered(cost_steps(request), store.ask)
        assert (cut.columns, cut.is_cut, len(cut.rows)) == (whole.columns, whole.is_cut, len(whole.rows))
        for cell, other in zip(cut.rows, whole.rows, strict=True):
            floats = {name for name, value in other.items() if isinstance(value, float)}
            assert {k: v for k, v in cell.items() if k not in floats} == {
                k: v for k, v in other.items() if k not in floats
            }
            assert {k: cell[k] for k in floats} == pytest.approx({k: other[k] for k in floats}, rel=1e-12)
