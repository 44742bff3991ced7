"""The forecast of the month in SQL is that of the page of costs, however many days are known."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from deploy.grafana.make_dashboards import statement
from schemas.tables import JOB_HOURS
from sinks.rows import Condition
from streams.costs.month import month_forecast
from streams.panels.registry import PANELS
from tests.deploy.grafana import expanded
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded

TODAY = date(2026, 3, 17)
NOW_S = int(instant("2026-03-17 10:20").timestamp())


def test_the_forecast_is_that_of_the_page_of_costs(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        for days in (1, 5, 13, 14, 20, 40):
            first = TODAY - timedelta(days=days)
            usd = {
                first + timedelta(days=day): Decimal(100 + 7 * day + 40 * (day % 7))
                for day in range(days + 1)
            }
            hours = [
                {
                    "job_id": f"c{days}",
                    "hour": instant(f"{day} 08:00"),
                    "gpu_cost_usd": cost,
                    "wall_clock_ms": 1,
                }
                for day, cost in usd.items()
            ]
            store.insert(JOB_HOURS, rows(JOB_HOURS, *hours), f"hours {days}")
            expected = month_forecast(usd, first, (NOW_S // 3600 + 1) * 3_600_000)
            (month,), (bars,) = (
                store.query(expanded(statement(PANELS[name]), NOW_S - 3_600, NOW_S, 60)).to_pylist()
                for name in ("month", "months")
            )
            store.delete(JOB_HOURS, [Condition("job_id", "=", f"c{days}")])
            assert expected.forecast_usd is not None
            assert month["so far"] == expected.spent_usd
            assert month["forecast"] == pytest.approx(float(expected.forecast_usd), abs=1e-6)
            left_usd = float(expected.forecast_usd - expected.spent_usd)
            assert bars["forecast of the rest"] == pytest.approx(left_usd, abs=1e-6)
